/* Makes the same calls repeatedly, so that their sites are rewritten, while everything happens
 * that may disturb that.
 *
 *   hot THREADS MS [filter]
 *
 * THREADS threads make waits that end at once, waits that end by themselves, reads by system
 * calls, and calls unrelated to time from the same sites. Meanwhile signals arrive, processes
 * are made by fork and by vfork, programs are started, libraries are loaded and unloaded,
 * and threads are cancelled while they wait. With `filter`, it first installs a seccomp filter
 * that allows everything. After MS milliseconds of CLOCK_MONOTONIC, or SIGTERM, it prints:
 *
 *   rounds, children, libraries, cancelled, signals   how often each was done
 *   wrong                    calls with a wrong result
 *   early                    waits that ended before their time
 *   back                     reads by a system call that are not between two others
 *   ms                       how long it took, by the clock
 *
 * and `done`. */
#include "common.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

/* A statically linked program has none. */
#pragma weak dlopen
#pragma weak dlclose

extern char **environ;

/* From the kernel's headers, which musl's compiler does not find. */
enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1 };
enum { SET_SECCOMP = 22, MODE_FILTER = 2, RETURN = 0x06, ALLOW = 0x7fff0000 };
struct instruction {
	uint16_t code;
	uint8_t jump_true, jump_false;
	uint32_t value;
};

enum { WAIT_MS = 3, CHILD_ROUNDS = 40, ALARM_US = 50 * 1000 };

static const char LIBRARY[] = "libutil.so.1";

static _Atomic long rounds, children, libraries, cancelled, signals, wrong, early, back;
static atomic_bool over;
static int ready[2], idle[2];

static void on_signal(int signal)
{
	(void)signal;
	signals++;
}

static void on_end(int signal)
{
	(void)signal;
	over = true;
}

static void check(bool right)
{
	if (!right)
		wrong++;
}

static double since(struct timespec start)
{
	return ms_between(start, now(CLOCK_MONOTONIC));
}

/* A wait that ends at once, unless a signal comes first. */
static void at_once(long result, long right, int error)
{
	check((result == right && (error == 0 || errno == error)) ||
	      (result == -1 && errno == EINTR));
}

/* A wait of the requested length, unless a signal ends it. */
static void waited(struct timespec start, int result)
{
	if (result == 0 && since(start) < WAIT_MS)
		early++;
	check(result == 0 || (result == -1 && errno == EINTR));
}

static void one_round(void)
{
	static uint32_t word = 1;
	struct pollfd full = { .fd = ready[0], .events = POLLIN };
	struct pollfd empty = { .fd = idle[0], .events = POLLIN };
	struct timespec span = from_ms(WAIT_MS), second = from_ms(1000);

	at_once(poll(&full, 1, 1000), 1, 0);
	at_once(ppoll(&full, 1, &second, NULL), 1, 0);
	struct timespec start = now(CLOCK_MONOTONIC);
	waited(start, poll(&empty, 1, WAIT_MS));
	start = now(CLOCK_MONOTONIC);
	waited(start, nanosleep(&span, NULL));

	/* From one site of the C library: a read, a wait, and calls of another kind. */
	struct timespec read, before = now(CLOCK_REALTIME);
	check(syscall(SYS_clock_gettime, CLOCK_REALTIME, &read) == 0);
	if (ms_between(before, read) < 0 || ms_between(read, now(CLOCK_REALTIME)) < 0)
		back++;
	second = from_ms(1000);
	at_once(syscall(SYS_futex, &word, FUTEX_WAIT, 2, &second, NULL, 0), -1, EAGAIN);
	check(syscall(SYS_futex, &word, FUTEX_WAKE, 1, (void *)8, NULL, 0) == 0);
	check(syscall(SYS_getppid) == getppid());
	check(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, (void *)8) == -1 && errno == EFAULT);
	rounds++;
}

static void *work(void *unused)
{
	do
		one_round();
	while (!over);
	return unused;
}

static void child(void)
{
	wrong = early = back = 0;
	for (int i = 0; i < CHILD_ROUNDS; i++)
		one_round();
	_exit(wrong || early || back);
}

static void *make_processes(void *unused)
{
	char *arguments[] = { "true", NULL };
	do {
		int status;
		pid_t made = fork();
		if (made == 0)
			child();
		check(made > 0 && waitpid(made, &status, 0) == made && status == 0);
		check(posix_spawnp(&made, "true", NULL, NULL, arguments, environ) == 0 &&
		      waitpid(made, &status, 0) == made && status == 0);
		children += 2;
	} while (!over);
	return unused;
}

static void *load(void *unused)
{
	/* In a root with only this program, there is none to load. */
	void *first = dlopen ? dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL) : NULL;
	bool are_there = first && dlclose(first) == 0;
	while (!over && are_there) {
		void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
		check(library != NULL && dlclose(library) == 0);
		libraries++;
	}
	return unused;
}

static void *wait_long(void *kind)
{
	struct pollfd empty = { .fd = idle[0], .events = POLLIN };
	struct timespec span = from_ms(1000 * 1000);
	for (;;) {
		switch (*(int *)kind) {
		case 0:
			poll(&empty, 1, 1000 * 1000);
			break;
		case 1:
			nanosleep(&span, NULL);
			break;
		default:
			poll(&empty, 1, 1);
		}
	}
	return NULL;
}

static void *cancel(void *unused)
{
	int kind = 0;
	do {
		pthread_t thread;
		void *result;
		check(pthread_create(&thread, NULL, wait_long, &kind) == 0);
		poll(NULL, 0, 1);
		check(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 &&
		      result == PTHREAD_CANCELED);
		cancelled++;
		kind = (kind + 1) % 3;
	} while (!over);
	return unused;
}

static void filter(void)
{
	struct instruction allow = { .code = RETURN, .value = ALLOW };
	struct {
		uint16_t length;
		struct instruction *first;
	} program = { 1, &allow };
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
	must(prctl(SET_SECCOMP, MODE_FILTER, &program) == 0, "PR_SET_SECCOMP");
}

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: hot THREADS MS [filter]\n");
		return 92;
	}
	int workers = atoi(argv[1]);
	double ms = atof(argv[2]);
	if (argc == 4)
		filter();
	must(pipe(ready) == 0 && pipe(idle) == 0 && write(ready[1], "x", 1) == 1, "pipe");
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sigaction end = { .sa_handler = on_end, .sa_flags = SA_RESTART };
	must(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0 &&
		     sigaction(SIGTERM, &end, NULL) == 0,
	     "sigaction");
	struct timeval period = { .tv_usec = ALARM_US };
	must(setitimer(ITIMER_REAL, &(struct itimerval){ period, period }, NULL) == 0, "setitimer");

	struct timespec start = now(CLOCK_MONOTONIC);
	void *(*others[])(void *) = { make_processes, load, cancel };
	pthread_t *threads = calloc((size_t)workers + 3, sizeof *threads);
	must(threads != NULL, "calloc");
	for (int i = 0; i < workers; i++)
		must(pthread_create(&threads[i], NULL, work, NULL) == 0, "pthread_create");
	for (int i = 0; i < 3; i++)
		must(pthread_create(&threads[workers + i], NULL, others[i], NULL) == 0,
		     "pthread_create");
	for (int turn = 0; !over && since(start) < ms; turn = (turn + 1) % workers) {
		must(pthread_kill(threads[turn], SIGUSR1) == 0, "pthread_kill");
		poll(NULL, 0, 100);
	}
	over = true;
	for (int i = 0; i < workers + 3; i++)
		must(pthread_join(threads[i], NULL) == 0, "pthread_join");
	say("rounds=%ld", rounds);
	say("children=%ld", children);
	say("libraries=%ld", libraries);
	say("cancelled=%ld", cancelled);
	say("signals=%ld", signals);
	say("wrong=%ld", wrong);
	say("early=%ld", early);
	say("back=%ld", back);
	say("ms=%.3f", since(start));
	say("done");
	return 0;
}
