/* Signals, jumps, cancellation, children, threads. */
#include "preload.h"

#include <sys/prctl.h>

enum { LONG_MS = 20000 };

/* Without time to pass: what is left after a signal is what was not waited for. */
void interrupted(void)
{
	for (int i = 0; i < wait_count; i++)
		for (int later = 0; later < 2; later++) {
			long left = -1, begin = kernel_ns(CLOCK_MONOTONIC);
			alarm_in_us(later ? 30000 : 3000);
			int before = alarms;
			int answer = waits[i].call(LONG_MS * NS_PER_MS, &left);
			int error = errno;
			long passed = kernel_ns(CLOCK_MONOTONIC) - begin;
			bool whole = left < 0 || (left + passed >= LONG_MS * NS_PER_MS - NS_PER_MS &&
						  left < LONG_MS * NS_PER_MS);
			say("%s=%d %s whole=%d alarmed=%d", waits[i].name, answer,
			    strerrorname_np(error), whole, alarms > before);
		}
	alarm_in_us(100000);
	say("sleep=%u", sleep(1000));
	/* Those without a handler do not end a wait. */
	signal(SIGALRM, SIG_IGN);
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } };
	must(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
	for (int i = 0; i < wait_count; i++) {
		long left = -1;
		say("%s ignoring=%d", waits[i].name, waits[i].call(40 * NS_PER_MS, &left));
	}
}

static volatile sig_atomic_t has_slept;

static void sleep_inside(int signal)
{
	(void)signal;
	struct timespec t = { 0, 300000 }, shown;
	int slept = nanosleep(&t, NULL);
	int selected = select(0, NULL, NULL, NULL, &(struct timeval){ 0, 200 });
	int read = clock_gettime(CLOCK_MONOTONIC, &shown);
	/* The alarm may come again. */
	if (!has_slept)
		say("inside=%d select=%d clock=%d", slept, selected, read);
	has_slept = 1;
}

/* A handler that waits itself, on the thread's stack and on one of its own. */
void handlers(void)
{
	static char other_stack[65536];
	stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof other_stack };
	must(sigaltstack(&stack, NULL) == 0, "sigaltstack");
	for (int i = 0; i < wait_count; i++)
		for (int other = 0; other < 2; other++) {
			has_slept = 0;
			alarm_in_us(2000);
			struct sigaction action = { .sa_handler = sleep_inside,
						    .sa_flags = other ? SA_ONSTACK : 0 };
			must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
			long left;
			int answer = waits[i].call(LONG_MS * NS_PER_MS, &left);
			say("%s=%d %s", waits[i].name, answer, strerrorname_np(errno));
			must(waits[i].call(2 * NS_PER_MS, &left) == 0, "again");
		}
}

static sigjmp_buf out;

static void jump(int signal)
{
	(void)signal;
	siglongjmp(out, 1);
}

/* Deep in the stack, where other things were before. */
static int __attribute__((noinline)) usleep_below(int depth)
{
	volatile char room[512];
	memset((void *)room, depth, sizeof room);
	int answer = depth == 0 ? usleep(2000) : usleep_below(depth - 1);
	return answer + (room[0] != depth);
}

/* Out of a wait, which so never ends, and into the next one. */
void jumps(void)
{
	for (volatile int round = 0; round < 50; round++)
		for (volatile int i = 0; i < wait_count; i++) {
			long left;
			if (sigsetjmp(out, 1) == 0) {
				alarm_to(jump, 200);
				waits[i].call(LONG_MS * NS_PER_MS, &left);
				say("%s ended", waits[i].name);
			}
		}
	/* The next wait puts right what the last has left. */
	usleep(2000);
	say("jumped slack=%d", prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
	/* Also if it stands below that. */
	if (sigsetjmp(out, 1) == 0) {
		alarm_to(jump, 20000);
		/* The kernel alone does the first part of longer waits. */
		for (;;)
			usleep(190000);
	}
	say("waited below=%d", usleep_below(8));
	say("jumped slack=%d", prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
}

static int cleaned;

static void clean(void *unused)
{
	(void)unused;
	__atomic_add_fetch(&cleaned, 1, __ATOMIC_RELAXED);
}

struct victim {
	const struct wait *wait;
	long ns;
	bool for_ever;
};

static void *be_cancelled(void *argument)
{
	const struct victim *victim = argument;
	long left;
	pthread_cleanup_push(clean, NULL);
	do
		victim->wait->call(victim->ns, &left);
	while (victim->for_ever);
	pthread_cleanup_pop(0);
	return NULL;
}

/* In the kernel's part of a wait, while spinning, and before it has begun. */
void cancelled(void)
{
	const long lengths[] = { LONG_MS * NS_PER_MS, 20000, 3 * NS_PER_MS };
	int expected = 0;
	for (int i = 0; i < wait_count; i++) {
		/* thrd_sleep is no cancellation point by its standard, but in glibc. */
		for (int l = 0; l < 3; l++)
			for (int round = 0; round < 8; round++) {
				struct victim victim = { &waits[i], lengths[l], l > 0 };
				pthread_t thread;
				void *result;
				must(pthread_create(&thread, NULL, be_cancelled, &victim) == 0, "thread");
				if (round % 2)
					usleep(1500);
				must(pthread_cancel(thread) == 0, "pthread_cancel");
				must(pthread_join(thread, &result) == 0, "pthread_join");
				if (result != PTHREAD_CANCELED)
					say("%s was not cancelled", waits[i].name);
				expected++;
			}
	}
	say("all cleaned=%d", cleaned == expected);
	must(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0, "disable");
	pthread_cancel(pthread_self());
	usleep(3000);
	say("disabled");
}

static long readings;

/* As often, and for as long, as it takes a library before it to look at the kernel's clocksource,
 * and to look again. */
static void *read_cancelled(void *unused)
{
	(void)unused;
	pthread_cancel(pthread_self());
	long begin = kernel_ns(CLOCK_MONOTONIC);
	while (kernel_ns(CLOCK_MONOTONIC) - begin < NS_PER_S + NS_PER_S / 5) {
		now(CLOCK_MONOTONIC);
		now(CLOCK_REALTIME);
		readings++;
	}
	readings = -readings;
	long left;
	waits[0].call(10 * NS_PER_MS, &left);
	return NULL;
}

static void *wait_cancelled(void *unused)
{
	(void)unused;
	pthread_cancel(pthread_self());
	long left;
	waits[0].call(10 * NS_PER_MS, &left);
	return NULL;
}

/* Whether a thread that does this first of all in a process is cancelled. */
static bool is_cancelled(void *(*what)(void *))
{
	pthread_t thread;
	void *result;
	must(pthread_create(&thread, NULL, what, NULL) == 0, "thread");
	must(pthread_join(thread, &result) == 0, "pthread_join");
	return result == PTHREAD_CANCELED;
}

/* A thread that is cancelled already ends in a wait, and not in a reading, which is no
 * cancellation point. */
void cancelled_before(void)
{
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child == 0)
		_exit(is_cancelled(wait_cancelled) ? 0 : 1);
	int status;
	must(waitpid(child, &status, 0) == child, "waitpid");
	say("waited=%d", status);
	say("read=%d", is_cancelled(read_cancelled));
	say("all=%d", readings < -1000);
}

static void *sleep_and_fork(void *unused)
{
	(void)unused;
	for (int round = 0; round < 20; round++) {
		long left;
		pid_t child = fork();
		must(child >= 0, "fork");
		if (child == 0) {
			for (int i = 0; i < wait_count; i++)
				if (waits[i].call(NS_PER_MS, &left) != 0)
					_exit(1);
			struct timespec a = now(CLOCK_MONOTONIC), b = now(CLOCK_MONOTONIC);
			_exit(ms_between(a, b) < 0);
		}
		waits[round % wait_count].call(NS_PER_MS, &left);
		int status;
		must(waitpid(child, &status, 0) == child, "waitpid");
		if (status != 0)
			say("a child ended with %x", status);
	}
	return NULL;
}

void forked(void)
{
	/* What they open is open before there are threads: a fork in the middle of another thread's
	 * pipe() copies its numbers, which are in memory already, but not yet the descriptors. */
	long left;
	for (int i = 0; i < wait_count; i++)
		must(waits[i].call(NS_PER_MS, &left) == 0, waits[i].name);
	pthread_t forkers[4];
	for (int i = 0; i < 4; i++)
		must(pthread_create(&forkers[i], NULL, sleep_and_fork, NULL) == 0, "thread");
	for (int i = 0; i < 4; i++)
		pthread_join(forkers[i], NULL);
	for (int round = 0; round < 20; round++) {
		pid_t child = vfork();
		if (child == 0) {
			struct timespec t = { 0, 300000 };
			nanosleep(&t, NULL);
			execl("/bin/sleep", "sleep", "0.002", (char *)NULL);
			_exit(127);
		}
		int status;
		must(child > 0 && waitpid(child, &status, 0) == child, "vfork");
		if (status != 0)
			say("a child ended with %x", status);
		usleep(300);
	}
	say("all children ended");
}

static void *sleep_a_little(void *unused)
{
	for (int i = 0; i < 5; i++)
		usleep(200);
	return unused;
}

/* Thousands, one generation after the other, on the smallest stacks. */
void threads(void)
{
	enum { AT_ONCE = 1500 };
	static pthread_t all[AT_ONCE];
	pthread_attr_t small;
	must(pthread_attr_init(&small) == 0, "attributes");
	must(pthread_attr_setstacksize(&small, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0, "stack");
	int made = 0;
	for (int generation = 0; generation < 3; generation++) {
		for (int i = 0; i < AT_ONCE; i++) {
			must(pthread_create(&all[i], &small, sleep_a_little, NULL) == 0, "thread");
			made++;
		}
		for (int i = 0; i < AT_ONCE; i++)
			pthread_join(all[i], NULL);
	}
	say("threads=%d", made);
}

/* Signals all the time, in all phases of a wait, to several threads. */
static void *wait_in_storm(void *unused)
{
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < wait_count; i++) {
			long left;
			int answer = waits[i].call(2 * NS_PER_MS, &left);
			if (answer != 0 && errno != EINTR)
				say("%s=%d %s", waits[i].name, answer, strerrorname_np(errno));
		}
	return unused;
}

static void read_clock(int signal)
{
	(void)signal;
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	clock_gettime(CLOCK_MONOTONIC, &t);
	t = (struct timespec){ 0, 1000 };
	nanosleep(&t, NULL);
}

void storm(void)
{
	struct sigaction action = { .sa_handler = read_clock, .sa_flags = SA_RESTART };
	must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
	struct itimerval often = { { 0, 150 }, { 0, 150 } };
	must(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
	pthread_t all[3];
	for (int i = 0; i < 3; i++)
		must(pthread_create(&all[i], NULL, wait_in_storm, NULL) == 0, "thread");
	for (int i = 0; i < 3; i++)
		pthread_join(all[i], NULL);
	say("weathered");
}
