/* Makes processes in every usual way. Each new process prints what time it is
 * and how long a sleep of MS milliseconds took by its own clock:
 *
 *   tree HOW MS               HOW is a name in the table at the end
 *   tree leaf NAME MS         what the new processes run
 *   tree daemon FILE MS       leaves a process behind that writes to FILE
 *   tree chroot DIR MS        runs DIR/tree with DIR as its root
 *   tree into_group DIR MS    a child begins in the control group DIR
 *   tree race LEFT SINCE MS   all threads exec this program at once, LEFT times in a
 *                             row, after SINCE milliseconds of the wall clock
 *   tree family               prints the ids of three generations and stays */
#include "common.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;

static const char *self;
static char *duration;
static long ms;

static void say_time(int fd, const char *name)
{
	struct timespec start = now(CLOCK_MONOTONIC);
	sleep_ms(ms);
	char line[200];
	int length = snprintf(line, sizeof line, "%s wall=%lld mono_ms=%.6f\n", name,
			      (long long)now(CLOCK_REALTIME).tv_sec,
			      ms_between(start, now(CLOCK_MONOTONIC)));
	must(write(fd, line, (size_t)length) == length, "write");
}

static void leaf(const char *name)
{
	say_time(STDOUT_FILENO, name);
}

static char **leaf_arguments(const char *name)
{
	static char *arguments[5];
	arguments[0] = (char *)self;
	arguments[1] = "leaf";
	arguments[2] = (char *)name;
	arguments[3] = duration;
	return arguments;
}

static void reap(pid_t child)
{
	int status;
	must(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
	say("status=%d", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void by_fork(void)
{
	pid_t child = fork();
	if (child == 0) {
		leaf("fork");
		_exit(0);
	}
	reap(child);
}

static void by_fork_exec(void)
{
	pid_t child = fork();
	if (child == 0) {
		execv(self, leaf_arguments("fork_exec"));
		_exit(93);
	}
	reap(child);
}

static void by_vfork_exec(void)
{
	char **arguments = leaf_arguments("vfork_exec");
	pid_t child = vfork();
	if (child == 0) {
		execv(self, arguments);
		_exit(93);
	}
	reap(child);
}

/* Its parent is held in the kernel while the child sleeps. */
static void by_vfork_late(void)
{
	char **arguments = leaf_arguments("vfork_late");
	say("pid=%d", getpid());
	pid_t child = vfork();
	if (child == 0) {
		sleep_ms(ms);
		sleep_ms(ms);
		execv(self, arguments);
		_exit(93);
	}
	reap(child);
}

static void by_posix_spawn(void)
{
	pid_t child;
	must(posix_spawn(&child, self, NULL, NULL, leaf_arguments("posix_spawn"), environ) == 0,
	     "posix_spawn");
	reap(child);
}

static int cloned(void *name)
{
	leaf(name);
	return 0;
}

static void by_clone(void)
{
	static char stack[64 * 1024];
	reap(clone(cloned, stack + sizeof stack, SIGCHLD, "clone"));
}

/* Shares memory with its parent, as vfork does. */
static void by_clone_vm(void)
{
	static char stack[64 * 1024];
	reap(clone(cloned, stack + sizeof stack, CLONE_VM | SIGCHLD, "clone_vm"));
}

static void by_clone3(void)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	} arguments = { .exit_signal = SIGCHLD };
	pid_t child = (pid_t)syscall(435 /* clone3 */, &arguments, sizeof arguments);
	if (child == 0) {
		leaf("clone3");
		_exit(0);
	}
	reap(child);
}

static void by_system(void)
{
	char command[1000];
	snprintf(command, sizeof command, "'%s' leaf system %s", self, duration);
	say("status=%d", system(command));
}

static void *exec_in_thread(void *unused)
{
	(void)unused;
	execv(self, leaf_arguments("exec_from_thread"));
	_exit(93);
}

/* The other threads end, and the new program takes the leader's id. */
static void by_exec_from_thread(void)
{
	pthread_t thread;
	must(pthread_create(&thread, NULL, exec_in_thread, NULL) == 0, "pthread_create");
	for (;;)
		pause();
}

enum { RACES = 50, RACERS = 8 };

static pthread_barrier_t start_line;
static char *race_arguments[6];

static void *run_race(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&start_line);
	execv(self, race_arguments);
	_exit(93);
}

/* In each image one thread's exec wins, and ends the others in the middle of theirs. */
static void race(long left, const char *since_ms)
{
	static char next_left[24], next_since_ms[24];
	long long wall_ms = (long long)to_ms(now(CLOCK_REALTIME));
	must(wall_ms >= strtoll(since_ms, NULL, 10), "the wall clock stepped back");
	if (left == 0) {
		leaf("racing_execs");
		_exit(0);
	}
	snprintf(next_left, sizeof next_left, "%ld", left - 1);
	snprintf(next_since_ms, sizeof next_since_ms, "%lld", wall_ms);
	char *arguments[] = { (char *)self, "race", next_left, next_since_ms, duration, NULL };
	memcpy(race_arguments, arguments, sizeof arguments);
	must(pthread_barrier_init(&start_line, NULL, RACERS) == 0, "pthread_barrier_init");
	pthread_t thread;
	for (int i = 1; i < RACERS; i++)
		must(pthread_create(&thread, NULL, run_race, NULL) == 0, "pthread_create");
	run_race(NULL);
}

static void by_racing_execs(void)
{
	race(RACES, "0");
}

/* A program that no path leads to. */
static void by_fexecve(void)
{
	int from = open(self, O_RDONLY | O_CLOEXEC);
	int memory = memfd_create("program", MFD_CLOEXEC);
	must(from >= 0 && memory >= 0, "memfd_create");
	static char block[65536];
	for (ssize_t got; (got = read(from, block, sizeof block)) > 0;)
		must(write(memory, block, (size_t)got) == got, "write");
	fexecve(memory, leaf_arguments("fexecve"), environ);
	_exit(93);
}

static void by_failed_exec(void)
{
	must(execl("/no/such/program", "program", NULL) == -1 && errno == ENOENT, "execl");
	leaf("failed_exec");
}

static void by_new_session(void)
{
	pid_t child = fork();
	if (child == 0) {
		must(setsid() >= 0, "setsid");
		execv(self, leaf_arguments("new_session"));
		_exit(93);
	}
	reap(child);
}

/* As a container would have it: process 1 of its own namespace. */
static void by_pid_namespace(void)
{
	static char stack[64 * 1024];
	reap(clone(cloned, stack + sizeof stack, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD,
		   "pid_namespace"));
}

enum { MANY = 40 };

static void by_many(void)
{
	for (int i = 0; i < MANY; i++) {
		pid_t child = fork();
		must(child >= 0, "fork");
		if (child == 0) {
			execv(self, leaf_arguments("many"));
			_exit(93);
		}
	}
	for (int i = 0; i < MANY; i++)
		must(wait(NULL) > 0, "wait");
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{ "fork", by_fork },
	{ "fork_exec", by_fork_exec },
	{ "vfork_exec", by_vfork_exec },
	{ "vfork_late", by_vfork_late },
	{ "posix_spawn", by_posix_spawn },
	{ "clone", by_clone },
	{ "clone_vm", by_clone_vm },
	{ "clone3", by_clone3 },
	{ "system", by_system },
	{ "exec_from_thread", by_exec_from_thread },
	{ "racing_execs", by_racing_execs },
	{ "fexecve", by_fexecve },
	{ "failed_exec", by_failed_exec },
	{ "new_session", by_new_session },
	{ "pid_namespace", by_pid_namespace },
	{ "many", by_many },
};

/* Forks twice, so that nobody it knows is its parent; writes long after the
 * first process has ended. */
static void leave_daemon(const char *path)
{
	if (fork() != 0)
		_exit(0);
	must(setsid() >= 0, "setsid");
	if (fork() != 0)
		_exit(0);
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	int file = open(path, O_WRONLY);
	must(file >= 0, "open");
	say_time(file, "daemon");
	_exit(0);
}

static void change_root(const char *directory)
{
	must(chroot(directory) == 0 && chdir("/") == 0, "chroot");
	self = "/tree";
	execv(self, leaf_arguments("chroot"));
	_exit(93);
}

/* The group that the calling process is in, by the unified hierarchy. */
static void say_group(void)
{
	char line[500];
	FILE *groups = fopen("/proc/self/cgroup", "r");
	must(groups != NULL, "/proc/self/cgroup");
	while (fgets(line, sizeof line, groups))
		if (strncmp(line, "0::", 3) == 0)
			say("group=%.*s", (int)strcspn(line + 3, "\n"), line + 3);
	fclose(groups);
}

static void into_group(const char *directory)
{
	/* CLONE_ARGS_SIZE_VER2 of the kernel. */
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls,
			set_tid, set_tid_size, cgroup;
	} arguments = { .flags = 0x200000000 /* CLONE_INTO_CGROUP */, .exit_signal = SIGCHLD };
	int group = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(group >= 0, directory);
	arguments.cgroup = (uint64_t)group;
	pid_t child = (pid_t)syscall(435 /* clone3 */, &arguments, sizeof arguments);
	must(child >= 0, "clone3");
	if (child == 0) {
		say_group();
		leaf("into_group");
		_exit(0);
	}
	reap(child);
}

static void family(void)
{
	say("parent=%d", (int)getpid());
	if (fork() == 0) {
		say("child=%d", (int)getpid());
		if (fork() == 0) {
			setsid();
			say("grandchild=%d", (int)getpid());
		}
	}
	for (;;)
		sleep_ms(1000 * 1000);
}

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc == 2 && strcmp(argv[1], "family") == 0)
		family();
	if (argc < 3)
		return 92;
	duration = argv[argc - 1];
	ms = strtol(duration, NULL, 10);
	if (strcmp(argv[1], "leaf") == 0) {
		leaf(argv[2]);
		return 0;
	}
	if (strcmp(argv[1], "daemon") == 0)
		leave_daemon(argv[2]);
	if (strcmp(argv[1], "chroot") == 0)
		change_root(argv[2]);
	if (strcmp(argv[1], "race") == 0)
		race(strtol(argv[2], NULL, 10), argv[3]);
	if (strcmp(argv[1], "into_group") == 0) {
		into_group(argv[2]);
		return 0;
	}
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (strcmp(argv[1], ways[i].name) == 0) {
			ways[i].run();
			return 0;
		}
	return 92;
}
