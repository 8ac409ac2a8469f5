/* Shows a container from inside, without a shell.
 *
 *   contained look       its processes, descriptors, mounts, environment and privileges
 *   contained serve      prints `ready` and waits; SIGTERM ends it with status 3
 *   contained users      the real and the effective user
 *   contained listens    answers its own call through a seccomp listener
 *   contained allocate MIB   uses that much memory, then prints `allocated`
 *   contained segv | ill | fpe | abort   causes a fault, or calls abort */
#include "../common.h"

#include <dirent.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { ANSWER = 4242, STOPPED = 3 };

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

/* Prints the lines of a file that begin like this, each after `key=`; an empty key means the line's own. */
static void say_lines(const char *path, const char *begin, const char *key)
{
	FILE *file = fopen(path, "r");
	char line[400];
	must(file, path);
	while (fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, begin, strlen(begin)) == 0)
			say("%s=%s", key, line);
	}
	fclose(file);
}

static void say_processes(void)
{
	DIR *all = opendir("/proc");
	must(all, "/proc");
	for (struct dirent *entry; (entry = readdir(all));)
		if (is_number(entry->d_name))
			say("process=%s", entry->d_name);
	closedir(all);
}

/* Where a descriptor leads, without the number of a pipe or socket. */
static void say_descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	must(all, "/proc/self/fd");
	for (struct dirent *entry; (entry = readdir(all));) {
		char path[PATH_MAX], target[PATH_MAX];
		if (!is_number(entry->d_name) || atoi(entry->d_name) == dirfd(all))
			continue;
		snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
		ssize_t length = readlink(path, target, sizeof target - 1);
		must(length >= 0, path);
		target[length] = '\0';
		if (*target != '/')
			target[strcspn(target, ":")] = '\0';
		say("descriptor=%s %s", entry->d_name, target);
	}
	closedir(all);
}

/* The mount point and the file system type. */
static void say_mounts(void)
{
	FILE *file = fopen("/proc/self/mountinfo", "r");
	char line[4096], point[PATH_MAX], kind[100];
	must(file, "mountinfo");
	while (fgets(line, sizeof line, file)) {
		char *after = strstr(line, " - ");
		must(after && sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1, "mount point");
		must(sscanf(after, " - %99s", kind) == 1, "file system");
		say("mount=%.300s %s", point, kind);
	}
	fclose(file);
}

static void say_environment(void)
{
	extern char **environ;
	for (char **entry = environ; *entry; entry++)
		say("variable=%.*s", (int)strcspn(*entry, "="), *entry);
}

static void look(void)
{
	say("pid=%d", getpid());
	say("parent=%d", getppid());
	static const char *const fields[] = { "TracerPid", "NoNewPrivs", "CapEff", "CapPrm",
					      "CapBnd",	   "Uid",	 "Gid",	   "SigBlk",
					      "SigIgn",	   "Threads" };
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		say_lines("/proc/self/status", fields[i], "status");
	say_processes();
	say_descriptors();
	say_mounts();
	say_environment();
	say("done");
}

static void stop(int signal)
{
	(void)signal;
	_exit(STOPPED);
}

static void serve(void)
{
	must(signal(SIGTERM, stop) != SIG_ERR, "signal");
	say("ready");
	for (;;)
		pause();
}

static void users(void)
{
	say("uid=%d", getuid());
	say("euid=%d", geteuid());
	say_lines("/proc/self/status", "NoNewPrivs", "status");
}

/* A sandbox whose parent answers getppid(). */
static int sandbox(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof filter / sizeof *filter, .filter = filter };
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void listens(void)
{
	int listener = sandbox();
	must(listener >= 0, "SECCOMP_FILTER_FLAG_NEW_LISTENER");
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		say("answer=%ld", syscall(SYS_getppid));
		struct timespec wall = now(CLOCK_REALTIME);
		say("seconds=%lld", (long long)wall.tv_sec);
		_exit(0);
	}
	struct seccomp_notif asked = { 0 };
	must(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) == 0, "SECCOMP_IOCTL_NOTIF_RECV");
	struct seccomp_notif_resp answer = { .id = asked.id, .val = ANSWER };
	must(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0, "SECCOMP_IOCTL_NOTIF_SEND");
	int status;
	must(waitpid(child, &status, 0) == child && status == 0, "waitpid");
}

static void allocate(size_t mib)
{
	volatile char *memory = malloc(mib << 20);
	must(memory, "malloc");
	for (size_t byte = 0; byte < mib << 20; byte += 4096)
		memory[byte] = 1;
	say("allocated");
}

/* Returns whether this names a fault, if that did not end the program. */
static bool crash(const char *fault)
{
	volatile char *volatile nowhere = NULL;
	volatile int zero = 0;
	if (strcmp(fault, "segv") == 0)
		*nowhere = 1;
	else if (strcmp(fault, "ill") == 0)
		__builtin_trap();
	else if (strcmp(fault, "fpe") == 0)
		zero = 100 / zero;
	else if (strcmp(fault, "abort") == 0)
		abort();
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "look") == 0)
		look();
	else if (strcmp(what, "serve") == 0)
		serve();
	else if (strcmp(what, "users") == 0)
		users();
	else if (strcmp(what, "listens") == 0)
		listens();
	else if (strcmp(what, "allocate") == 0 && argc == 3)
		allocate(strtoul(argv[2], NULL, 10));
	else if (!crash(what))
		return 92;
	return 0;
}
