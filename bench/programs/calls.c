/* Measures the cost of a call, in ticks of the processor's counter.
 *
 *   calls BATCH_TICKS PROBE...   for each probe, prints one line when it is done:
 *                                PROBE <tab> calls <tab> ticks   (the best batch)
 *                                PROBE <tab> wrong <tab> what the call did
 *   calls first CALLS PROBE      the same line for the first CALLS calls of the process
 *   calls look TICKS             what the clocks show, and how far they advance
 *                                while the counter makes that many ticks:
 *                                wall ns, monotonic ns, advance ns, advance ns
 *
 * A batch is sized to last about BATCH_TICKS; the best of BATCHES batches
 * counts, because disturbances can only add time.  */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ticks.h"

enum { BATCHES = 5 };

/* A wrong result of a call, which makes its cost meaningless. */
static const char *wrong;

#define MUST(condition, otherwise)                                             \
	do {                                                                   \
		if (!(condition)) {                                            \
			wrong = otherwise;                                     \
			return;                                                \
		}                                                              \
	} while (0)

static void nothing(void)
{
}

/* Clock reads ------------------------------------------------------------- */

static struct timespec now;

static void realtime(uint64_t calls)
{
	while (calls--)
		MUST(clock_gettime(CLOCK_REALTIME, &now) == 0, "failed");
}

static void monotonic(uint64_t calls)
{
	while (calls--)
		MUST(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "failed");
}

static void realtime_coarse(uint64_t calls)
{
	while (calls--)
		MUST(clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0, "failed");
}

static void seconds(uint64_t calls)
{
	time_t t;
	while (calls--)
		MUST(time(&t) != (time_t)-1, "failed");
}

static void raw_realtime(uint64_t calls)
{
	while (calls--)
		MUST(syscall(SYS_clock_gettime, CLOCK_REALTIME, &now) == 0, "failed");
}

static void raw_monotonic(uint64_t calls)
{
	while (calls--)
		MUST(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) == 0, "failed");
}

/* Waits that end at once -------------------------------------------------- */

static struct pollfd ready;
static int pipe_ends[2];

static void poll_setup(void)
{
	MUST(pipe(pipe_ends) == 0 && write(pipe_ends[1], "x", 1) == 1, "no pipe");
	ready = (struct pollfd){.fd = pipe_ends[0], .events = POLLIN};
}

static void poll_teardown(void)
{
	close(pipe_ends[0]);
	close(pipe_ends[1]);
}

static void poll_ready(uint64_t calls)
{
	while (calls--)
		MUST(poll(&ready, 1, 1000) == 1, "did not report the ready descriptor");
}

/* The default slack of 50 us would hide the differences measured here. */
static void slack_setup(void)
{
	MUST(prctl(PR_SET_TIMERSLACK, 1) == 0, "timer slack cannot be set");
}

static void slack_teardown(void)
{
	prctl(PR_SET_TIMERSLACK, 0);
}

static void nanosleep_zero(uint64_t calls)
{
	while (calls--)
		MUST(nanosleep(&(struct timespec){0, 0}, NULL) == 0, "failed");
}

static void futex_mismatch(uint64_t calls)
{
	uint32_t word = 1;
	struct timespec timeout = {1, 0};
	while (calls--)
		MUST(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &timeout, NULL, 0) == -1
			     && errno == EAGAIN,
		     "did not return EAGAIN");
}

static void getppid_raw(uint64_t calls)
{
	while (calls--)
		MUST(syscall(SYS_getppid) >= 0, "failed");
}

/* Processes and threads that end at once, and signals ---------------------- */

static void fork_and_wait(uint64_t calls)
{
	int status;
	while (calls--) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0,
		     "the child did not end as it should");
	}
}

static void *ends(void *unused)
{
	return unused;
}

static void create_and_join(uint64_t calls)
{
	pthread_t thread;
	while (calls--)
		MUST(pthread_create(&thread, NULL, ends, NULL) == 0
			     && pthread_join(thread, NULL) == 0,
		     "no thread");
}

/* Multiplications between two signals, if there are about 10,000 signals a second. */
enum { WORK = 100000 };

static volatile sig_atomic_t handled;
static pid_t self;

static void handle(int unused)
{
	(void)unused;
	handled = 1;
}

static void signal_setup(void)
{
	self = getpid();
	MUST(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle}, NULL) == 0,
	     "no handler");
}

static void signal_teardown(void)
{
	signal(SIGUSR1, SIG_DFL);
}

static void signal_oneself(uint64_t calls)
{
	while (calls--) {
		handled = 0;
		MUST(kill(self, SIGUSR1) == 0 && handled, "the handler did not run");
	}
}

/* Each depends on the previous product, which takes three cycles on most processors. */
static void work(void)
{
	uint64_t product = 1;
	for (int i = 0; i < WORK; i++) {
		product *= 0x9e3779b97f4a7c15;
		__asm__ volatile("" : "+r"(product));
	}
}

static void work_and_signal(uint64_t calls)
{
	while (calls-- && !wrong) {
		work();
		signal_oneself(1);
	}
}

/* Two threads that take turns -----------------------------------------------
 *
 * Both stay on one processor: their placement by the scheduler makes a
 * difference of a factor of six, which would hide everything else.  */

enum turn { MAIN, PARTNER, OVER };

/* So far ahead in virtual time that it does not pass at any rate measured here. */
enum { COND_TIMEOUT_S = 60 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static clockid_t cond_clock;
static enum turn turn;
static pthread_t partner;
static cpu_set_t allowed;

static int wait_for_turn(enum turn mine)
{
	struct timespec deadline;
	while (turn != mine && turn != OVER) {
		clock_gettime(cond_clock, &deadline);
		deadline.tv_sec += COND_TIMEOUT_S;
		if (pthread_cond_timedwait(&changed, &lock, &deadline) != 0)
			return -1;
	}
	return 0;
}

static void hand_over(enum turn next)
{
	turn = next;
	pthread_cond_signal(&changed);
}

static void *partner_main(void *unused)
{
	pthread_mutex_lock(&lock);
	while (turn != OVER && wait_for_turn(PARTNER) == 0)
		if (turn == PARTNER)
			hand_over(MAIN);
	/* Also reached after a failed wait: main must not wait forever. */
	hand_over(OVER);
	pthread_mutex_unlock(&lock);
	return unused;
}

static void stay_here(void)
{
	cpu_set_t here;
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	MUST(sched_getaffinity(0, sizeof allowed, &allowed) == 0
		     && sched_setaffinity(0, sizeof here, &here) == 0,
	     "threads cannot be kept on one processor");
}

static void cond_setup(clockid_t clock)
{
	pthread_condattr_t attributes;
	stay_here();
	if (wrong)
		return;
	cond_clock = clock;
	turn = MAIN;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, clock);
	pthread_cond_init(&changed, &attributes);
	MUST(pthread_create(&partner, NULL, partner_main, NULL) == 0, "no thread");
}

static void cond_realtime_setup(void)
{
	cond_setup(CLOCK_REALTIME);
}

static void cond_monotonic_setup(void)
{
	cond_setup(CLOCK_MONOTONIC);
}

static void cond_teardown(void)
{
	pthread_mutex_lock(&lock);
	hand_over(OVER);
	pthread_mutex_unlock(&lock);
	pthread_join(partner, NULL);
	pthread_cond_destroy(&changed);
	sched_setaffinity(0, sizeof allowed, &allowed);
}

static void cond_round_trip(uint64_t calls)
{
	int outcome = 0;
	pthread_mutex_lock(&lock);
	while (calls-- && outcome == 0 && turn != OVER) {
		hand_over(PARTNER);
		outcome = wait_for_turn(MAIN);
	}
	if (turn == OVER)
		outcome = -1;
	pthread_mutex_unlock(&lock);
	MUST(outcome == 0, "timed out long before its deadline");
}

/* ------------------------------------------------------------------------- */

static const struct probe {
	const char *name;
	void (*setup)(void);
	void (*loop)(uint64_t calls);
	void (*teardown)(void);
} probes[] = {
	{"realtime", nothing, realtime, nothing},
	{"monotonic", nothing, monotonic, nothing},
	{"time", nothing, seconds, nothing},
	{"realtime-coarse", nothing, realtime_coarse, nothing},
	{"raw-realtime", nothing, raw_realtime, nothing},
	{"raw-monotonic", nothing, raw_monotonic, nothing},
	{"poll", poll_setup, poll_ready, poll_teardown},
	{"nanosleep", slack_setup, nanosleep_zero, slack_teardown},
	{"futex", nothing, futex_mismatch, nothing},
	{"cond-realtime", cond_realtime_setup, cond_round_trip, cond_teardown},
	{"cond-monotonic", cond_monotonic_setup, cond_round_trip, cond_teardown},
	{"getppid", nothing, getppid_raw, nothing},
	{"fork", nothing, fork_and_wait, nothing},
	{"thread", nothing, create_and_join, nothing},
	{"signal", signal_setup, signal_oneself, signal_teardown},
	{"work", signal_setup, work_and_signal, signal_teardown},
};

static uint64_t ticks_for(const struct probe *probe, uint64_t calls)
{
	uint64_t start = ticks_now();
	probe->loop(calls);
	return ticks_now() - start;
}

/*
 * Double until a quarter of a batch is reached, then scale. Each number is run once before it is
 * timed, because the first calls from a site may take some hundred times as long as later ones.
 */
static uint64_t calls_in(const struct probe *probe, uint64_t batch_ticks)
{
	uint64_t calls = 16, ticks;
	while (ticks_for(probe, calls),
	       (ticks = ticks_for(probe, calls)) < batch_ticks / 4 && !wrong)
		calls *= 2;
	uint64_t scaled = (uint64_t)((double)calls * (double)batch_ticks / (double)ticks);
	return scaled ? scaled : 1;
}

static void report(const struct probe *probe, uint64_t calls, uint64_t ticks)
{
	if (wrong)
		printf("%s\twrong\t%s\n", probe->name, wrong);
	else
		printf("%s\t%" PRIu64 "\t%" PRIu64 "\n", probe->name, calls, ticks);
	fflush(stdout);
}

static void measure(const struct probe *probe, uint64_t batch_ticks)
{
	uint64_t best = UINT64_MAX, calls = 0;
	wrong = NULL;
	probe->setup();
	if (!wrong) {
		calls = calls_in(probe, batch_ticks);
		for (int i = 0; i < BATCHES && !wrong; i++) {
			uint64_t ticks = ticks_for(probe, calls);
			if (ticks < best)
				best = ticks;
		}
		probe->teardown();
	}
	report(probe, calls, best);
}

static void measure_first(const struct probe *probe, uint64_t calls)
{
	uint64_t ticks = 0;
	probe->setup();
	if (!wrong) {
		ticks = ticks_for(probe, calls);
		probe->teardown();
	}
	report(probe, calls, ticks);
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void look(uint64_t ticks)
{
	uint64_t start = ticks_now();
	int64_t wall = clock_ns(CLOCK_REALTIME);
	int64_t monotonic = clock_ns(CLOCK_MONOTONIC);
	while (ticks_now() - start < ticks)
		;
	int64_t wall_moved = clock_ns(CLOCK_REALTIME) - wall;
	int64_t monotonic_moved = clock_ns(CLOCK_MONOTONIC) - monotonic;
	printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", wall, monotonic, wall_moved,
	       monotonic_moved);
}

static const struct probe *find(const char *name)
{
	for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++)
		if (strcmp(probes[i].name, name) == 0)
			return &probes[i];
	fprintf(stderr, "calls: no probe is called %s\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "look") == 0) {
		look(strtoull(argv[2], NULL, 10));
		return 0;
	}
	if (argc == 4 && strcmp(argv[1], "first") == 0) {
		measure_first(find(argv[3]), strtoull(argv[2], NULL, 10));
		return 0;
	}
	if (argc < 3) {
		fprintf(stderr, "usage: calls BATCH_TICKS PROBE... | calls first CALLS PROBE | "
				"calls look TICKS\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		measure(find(argv[i]), strtoull(argv[1], NULL, 10));
	return 0;
}
