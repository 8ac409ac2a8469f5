/* Without descriptors, and under a filter that allows next to nothing. */
#include "preload.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>

static void use_everything(void)
{
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < wait_count; i++) {
			long left;
			/* The pipe of this one needs descriptors. */
			if (strcmp(waits[i].name, "poll_pipe") == 0)
				continue;
			int answer = waits[i].call(NS_PER_MS, &left);
			say("%s=%d", waits[i].name, answer);
		}
	for (int i = 0; i < 3000; i++) {
		struct timeval tv;
		gettimeofday(&tv, NULL);
		time(NULL);
		now(CLOCK_MONOTONIC);
		now(CLOCK_REALTIME);
	}
}

void closed(void)
{
	usleep(300);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	struct rlimit none = { 0, 0 };
	must(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
	use_everything();
	/* Nothing was opened meanwhile either. */
	for (int fd = 3; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) != -1)
			say("descriptor %d is open", fd);
	close(STDERR_FILENO);
	close(STDIN_FILENO);
	use_everything();
}

#define ALLOW(call) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void install(struct sock_filter *filter, unsigned short length)
{
	struct sock_fprog program = { .len = length, .filter = filter };
	/* Root can do without the announcement. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0L, &program) == 0)
		return;
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "PR_SET_SECCOMP");
}

/* Only what this program's own calls come to. */
void sandboxed(void)
{
	usleep(300);
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(write),
		ALLOW(nanosleep),
		ALLOW(clock_nanosleep),
		ALLOW(pselect6),
		ALLOW(select),
		ALLOW(poll),
		ALLOW(ppoll),
		ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	install(filter, sizeof filter / sizeof *filter);
	use_everything();
	/* Past all upkeep that is due from time to time. */
	for (int i = 0; i < 3; i++) {
		sleep(1);
		for (int k = 0; k < 2000; k++)
			now(CLOCK_REALTIME);
	}
	use_everything();
}

#define FORBID(call) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static atomic_int waited;

static void *wait_again(void *unused)
{
	for (int i = 0; i < 20; i++) {
		usleep(20000);
		waited++;
	}
	return unused;
}

/* One filter for all threads, which comes while they wait. */
void synced(void)
{
	enum { THREADS = 8 };
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		FORBID(prctl),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
	pthread_t all[THREADS];
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&all[i], NULL, wait_again, NULL) == 0, "thread");
	while (waited < 5 * THREADS)
		usleep(100);
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
	must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0, "seccomp");
	for (int i = 0; i < THREADS; i++)
		pthread_join(all[i], NULL);
	say("waited=%d", waited);
}

static void wait_without_clocks(void)
{
	struct timespec t = { 0, NS_PER_MS };
	say("nanosleep=%d", nanosleep(&t, NULL));
	say("usleep=%d", usleep(1000));
	say("select=%d", select(0, NULL, NULL, NULL, &(struct timeval){ 0, 1000 }));
	say("poll=%d", poll(NULL, 0, 1));
}

static void see_seconds_pass(void)
{
	time_t begin = time(NULL);
	while (time(NULL) < begin + 2)
		;
	say("seconds passed");
}

/* Where the processor's counter cannot be read. */
void uncounted(void)
{
	for (int i = 0; i < 3000; i++)
		now(CLOCK_REALTIME);
	usleep(20000);
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		/* Not every processor has that. */
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
		wait_without_clocks();
		see_seconds_pass();
		_exit(0);
	}
	int status;
	must(waitpid(child, &status, 0) == child, "waitpid");
	say("without the counter: %x", status);
	for (int by_name = 0; by_name < 2; by_name++) {
		child = fork();
		must(child >= 0, "fork");
		if (child == 0) {
			if (by_name)
				must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "PR_SET_SECCOMP");
			else
				must(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0L, NULL) == 0, "seccomp");
			see_seconds_pass();
			syscall(SYS_exit, 0);
		}
		must(waitpid(child, &status, 0) == child, "waitpid");
		say("strictly confined: %x", status);
	}
}

/* What no program needs to start and to sleep, for one that is started now. */
void filtered(const char *program, const char *library)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		FORBID(prctl),
		FORBID(adjtimex),
		FORBID(statx),
		FORBID(timerfd_create),
		FORBID(sched_setattr),
		FORBID(sched_setscheduler),
		FORBID(getrusage),
		FORBID(socket),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	install(filter, sizeof filter / sizeof *filter);
	if (library != NULL)
		must(setenv("LD_PRELOAD", library, 1) == 0, "setenv");
	execl(program, program, "closed", (char *)NULL);
	die("execl");
}
