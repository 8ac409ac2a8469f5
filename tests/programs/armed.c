/* Arms timers of every kind and prints, for every line on standard input, their remaining
 * time and how often they have expired.
 *
 *   armed ONCE_MS EVERY_MS
 *
 * A snapshot is a list of key=value lines in nanoseconds, ended by `done`: now_N is
 * clock number N, KEY_left the remaining time, KEY_count how often it has expired. KEY
 * is timerfd_N, timerfd_abs_N, timerfd_every_N, the same with timer_, or itimer. Those
 * named `every` and the interval timer are periodic. from_N and till_N are the clock
 * before the first timer was armed and after the last. */
#include "common.h"

#include <sys/time.h>
#include <sys/timerfd.h>

static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME };
enum { CLOCKS = sizeof clocks / sizeof *clocks };

enum form { ONCE, ABSOLUTE, EVERY, FORMS };
static const char *const suffixes[] = { "", "_abs", "_every" };

/* The kernel's timer numbers, not the library's pointers. */
typedef int kernel_timer;

static int descriptors[CLOCKS][FORMS];
static kernel_timer timers[CLOCKS][FORMS];
static long long descriptor_counts[CLOCKS][FORMS], timer_counts[CLOCKS][FORMS], itimer_count;

static long long ns(struct timespec t)
{
	return (long long)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int signal_of(int clock, int form)
{
	return SIGRTMIN + clock * FORMS + form;
}

static struct itimerspec setting(int clock, int form, long once_ms, long every_ms)
{
	switch (form) {
	case ONCE:
		return (struct itimerspec){ .it_value = from_ms(once_ms) };
	case ABSOLUTE:
		return (struct itimerspec){ .it_value = plus_ms(now(clocks[clock]), once_ms) };
	default:
		return (struct itimerspec){ .it_value = from_ms(every_ms),
					    .it_interval = from_ms(every_ms) };
	}
}

static void arm(int clock, int form, long once_ms, long every_ms)
{
	struct itimerspec wanted = setting(clock, form, once_ms, every_ms);
	int fd = timerfd_create(clocks[clock], TFD_NONBLOCK);
	must(fd >= 0, "timerfd_create");
	int flags = form == ABSOLUTE ? TFD_TIMER_ABSTIME : 0;
	must(timerfd_settime(fd, flags, &wanted, NULL) == 0, "timerfd_settime");
	descriptors[clock][form] = fd;

	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = signal_of(clock, form) };
	kernel_timer timer;
	must(syscall(SYS_timer_create, clocks[clock], &event, &timer) == 0, "timer_create");
	flags = form == ABSOLUTE ? TIMER_ABSTIME : 0;
	must(syscall(SYS_timer_settime, timer, flags, &wanted, NULL) == 0, "timer_settime");
	timers[clock][form] = timer;
}

static bool take(int signal)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, signal);
	return sigtimedwait(&set, NULL, &(struct timespec){ 0, 0 }) == signal;
}

static void say_one(int clock, int form)
{
	const char *suffix = suffixes[form];
	int number = clocks[clock];
	struct itimerspec left;
	must(timerfd_gettime(descriptors[clock][form], &left) == 0, "timerfd_gettime");
	say("timerfd%s_%d_left=%lld", suffix, number, ns(left.it_value));
	uint64_t expirations;
	if (read(descriptors[clock][form], &expirations, sizeof expirations) == sizeof expirations)
		descriptor_counts[clock][form] += (long long)expirations;
	say("timerfd%s_%d_count=%lld", suffix, number, descriptor_counts[clock][form]);

	kernel_timer timer = timers[clock][form];
	must(syscall(SYS_timer_gettime, timer, &left) == 0, "timer_gettime");
	say("timer%s_%d_left=%lld", suffix, number, ns(left.it_value));
	while (take(signal_of(clock, form)))
		timer_counts[clock][form] += 1 + syscall(SYS_timer_getoverrun, timer);
	say("timer%s_%d_count=%lld", suffix, number, timer_counts[clock][form]);
}

static void snapshot(void)
{
	for (int clock = 0; clock < CLOCKS; clock++)
		say("now_%d=%lld", clocks[clock], ns(now(clocks[clock])));
	for (int clock = 0; clock < CLOCKS; clock++)
		for (int form = 0; form < FORMS; form++)
			say_one(clock, form);
	struct itimerval left;
	must(getitimer(ITIMER_REAL, &left) == 0, "getitimer");
	say("itimer_left=%lld", left.it_value.tv_sec * NS_PER_S + left.it_value.tv_usec * 1000LL);
	itimer_count += take(SIGALRM);
	say("itimer_count=%lld", itimer_count);
	say("done");
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: armed ONCE_MS EVERY_MS\n");
		return 92;
	}
	long once_ms = strtol(argv[1], NULL, 10), every_ms = strtol(argv[2], NULL, 10);
	sigset_t every_signal;
	sigfillset(&every_signal);
	must(sigprocmask(SIG_BLOCK, &every_signal, NULL) == 0, "sigprocmask");

	struct timespec from[CLOCKS], till[CLOCKS];
	for (int clock = 0; clock < CLOCKS; clock++)
		from[clock] = now(clocks[clock]);
	for (int clock = 0; clock < CLOCKS; clock++)
		for (int form = 0; form < FORMS; form++)
			arm(clock, form, once_ms, every_ms);
	struct timeval period = { .tv_sec = every_ms / MS_PER_S,
				  .tv_usec = every_ms % MS_PER_S * US_PER_MS };
	must(setitimer(ITIMER_REAL, &(struct itimerval){ period, period }, NULL) == 0, "setitimer");
	for (int clock = 0; clock < CLOCKS; clock++)
		till[clock] = now(clocks[clock]);

	for (int byte; (byte = getchar()) != EOF;) {
		if (byte != '\n')
			continue;
		for (int clock = 0; clock < CLOCKS; clock++) {
			say("from_%d=%lld", clocks[clock], ns(from[clock]));
			say("till_%d=%lld", clocks[clock], ns(till[clock]));
		}
		snapshot();
	}
	return 0;
}
