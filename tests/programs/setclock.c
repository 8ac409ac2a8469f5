/* Sets the wall clock and checks the effects.
 *
 *   setclock set HOW        HOW: clock_settime, settimeofday, adjtimex,
 *                           clock_adjtime, libc_clock_settime. Advances it by
 *                           a day; prints both clocks before and after, and
 *                           what a second process reads.
 *   setclock wake WAITER    sets the clock beyond the deadline of a process
 *                           that waits for an instant, see the table
 *   setclock keep           sets the clock during a relative sleep
 *   setclock refused        what must be refused, and how; sets nothing
 *   setclock read           what adjtimex reports without setting anything
 *
 * It changes the clock it is given: never run it without Eigentime. */
#include "common.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/wait.h>

#define A_DAY_S 86400L
#define AN_HOUR_MS (3600L * MS_PER_S)
#ifndef TFD_TIMER_CANCEL_ON_SET
#define TFD_TIMER_CANCEL_ON_SET 2
#endif

static long by_clock_settime(struct timespec to, long step_s)
{
	(void)step_s;
	return syscall(SYS_clock_settime, CLOCK_REALTIME, &to);
}

static long by_libc_clock_settime(struct timespec to, long step_s)
{
	(void)step_s;
	return clock_settime(CLOCK_REALTIME, &to);
}

static long by_settimeofday(struct timespec to, long step_s)
{
	(void)step_s;
	struct timeval tv = { .tv_sec = to.tv_sec, .tv_usec = to.tv_nsec / 1000 };
	return syscall(SYS_settimeofday, &tv, NULL);
}

static struct timex offset(long step_s)
{
	struct timex change = { .modes = ADJ_SETOFFSET };
	change.time.tv_sec = step_s;
	return change;
}

/* These return the state of the clock, which is not negative. */
static long by_adjtimex(struct timespec to, long step_s)
{
	(void)to;
	struct timex change = offset(step_s);
	return syscall(SYS_adjtimex, &change) < 0 ? -1 : 0;
}

static long by_clock_adjtime(struct timespec to, long step_s)
{
	(void)to;
	struct timex change = offset(step_s);
	return syscall(SYS_clock_adjtime, CLOCK_REALTIME, &change) < 0 ? -1 : 0;
}

static const struct {
	const char *name;
	long (*set)(struct timespec to, long step_s);
} setters[] = {
	{ "clock_settime", by_clock_settime },
	{ "libc_clock_settime", by_libc_clock_settime },
	{ "settimeofday", by_settimeofday },
	{ "adjtimex", by_adjtimex },
	{ "clock_adjtime", by_clock_adjtime },
};

/* Answers every byte on `ask` with the wall clock's seconds. */
static pid_t start_reader(int ask[2], int answer[2])
{
	must(pipe(ask) == 0 && pipe(answer) == 0, "pipe");
	pid_t reader = fork();
	must(reader >= 0, "fork");
	if (reader == 0) {
		close(ask[1]);
		char byte;
		while (read(ask[0], &byte, 1) == 1) {
			long long both[2] = { now(CLOCK_REALTIME).tv_sec, 0 };
			struct timespec raw;
			syscall(SYS_clock_gettime, CLOCK_REALTIME, &raw);
			both[1] = raw.tv_sec;
			must(write(answer[1], both, sizeof both) == sizeof both, "write");
		}
		_exit(0);
	}
	return reader;
}

static void set(const char *how)
{
	int ask[2], answer[2];
	start_reader(ask, answer);
	for (size_t i = 0; i < sizeof setters / sizeof *setters; i++) {
		if (strcmp(setters[i].name, how) != 0)
			continue;
		struct timespec wall = now(CLOCK_REALTIME), monotonic = now(CLOCK_MONOTONIC);
		struct timespec to = wall;
		to.tv_sec += A_DAY_S;
		long result = setters[i].set(to, A_DAY_S);
		say("ret=%ld", result);
		say("errno=%d", result == -1 ? errno : 0);
		struct timespec raw;
		syscall(SYS_clock_gettime, CLOCK_REALTIME, &raw);
		say("wall_step_ms=%.3f", ms_between(wall, now(CLOCK_REALTIME)));
		say("raw_wall_step_ms=%.3f", ms_between(wall, raw));
		say("mono_step_ms=%.3f", ms_between(monotonic, now(CLOCK_MONOTONIC)));
		must(write(ask[1], "?", 1) == 1, "write");
		long long others[2];
		must(read(answer[0], others, sizeof others) == sizeof others, "read");
		say("other_step_s=%lld", others[0] - (long long)wall.tv_sec);
		say("other_raw_step_s=%lld", others[1] - (long long)wall.tv_sec);
		return;
	}
	die("no such way to set the clock");
}

/* Waits for an instant an hour away on the wall clock. */
static long wait_clock_nanosleep(struct timespec until)
{
	return syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
}

static long wait_futex(struct timespec until)
{
	uint32_t word = 0;
	/* FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME */
	return syscall(SYS_futex, &word, 9 | 256, 0, &until, NULL, ~0U);
}

static long wait_cond(struct timespec until)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	pthread_mutex_lock(&mutex);
	while ((errno = pthread_cond_timedwait(&condition, &mutex, &until)) == 0)
		;
	return -1;
}

static long wait_timerfd_with(struct timespec until, int flags)
{
	int fd = timerfd_create(CLOCK_REALTIME, 0);
	struct itimerspec setting = { .it_value = until };
	must(timerfd_settime(fd, TFD_TIMER_ABSTIME | flags, &setting, NULL) == 0, "timerfd_settime");
	uint64_t expirations;
	return read(fd, &expirations, sizeof expirations);
}

static long wait_timerfd(struct timespec until)
{
	return wait_timerfd_with(until, 0);
}

static long wait_timerfd_cancelled(struct timespec until)
{
	return wait_timerfd_with(until, TFD_TIMER_CANCEL_ON_SET);
}

static long wait_timer(struct timespec until)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	int timer;
	struct itimerspec setting = { .it_value = until };
	must(syscall(SYS_timer_create, CLOCK_REALTIME, &event, &timer) == 0, "timer_create");
	must(syscall(SYS_timer_settime, timer, TIMER_ABSTIME, &setting, NULL) == 0, "timer_settime");
	return sigwaitinfo(&set, NULL);
}

static const struct {
	const char *name;
	long (*wait)(struct timespec until);
} waiters[] = {
	{ "clock_nanosleep", wait_clock_nanosleep },
	{ "futex", wait_futex },
	{ "cond", wait_cond },
	{ "timerfd", wait_timerfd },
	{ "timerfd_cancelled", wait_timerfd_cancelled },
	{ "timer", wait_timer },
};

/* The state letter of a process, from its stat file. */
static char state_of(pid_t pid)
{
	char path[64], text[512] = "";
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "r");
	if (file && !fgets(text, sizeof text, file))
		text[0] = 0;
	if (file)
		fclose(file);
	char *after_name = strrchr(text, ')');
	return after_name ? after_name[2] : '?';
}

static void wake(const char *name)
{
	enum { LOOKS = 1000 * 1000, IN_A_ROW = 100 };
	for (size_t i = 0; i < sizeof waiters / sizeof *waiters; i++) {
		if (strcmp(waiters[i].name, name) != 0)
			continue;
		struct timespec until = plus_ms(now(CLOCK_REALTIME), AN_HOUR_MS);
		int ready[2];
		must(pipe(ready) == 0, "pipe");
		pid_t waiter = fork();
		must(waiter >= 0, "fork");
		if (waiter == 0) {
			must(write(ready[1], "r", 1) == 1, "write");
			struct timespec start = now(CLOCK_MONOTONIC);
			long result = waiters[i].wait(until);
			say("errno=%d", result == -1 ? errno : 0);
			say("ret=%ld", result);
			say("mono_ms=%.6f", ms_between(start, now(CLOCK_MONOTONIC)));
			_exit(0);
		}
		char byte;
		must(read(ready[0], &byte, 1) == 1, "read");
		/* Asleep in many consecutive checks: in its wait, not on the way there. */
		int asleep = 0;
		for (int look = 0; look < LOOKS && asleep < IN_A_ROW; look++)
			asleep = state_of(waiter) == 'S' ? asleep + 1 : 0;
		say("asleep=%d", asleep >= IN_A_ROW);
		say("begin");
		must(by_clock_settime(plus_ms(until, AN_HOUR_MS), 0) == 0, "clock_settime");
		waitpid(waiter, NULL, 0);
		say("end");
		return;
	}
	die("no such waiter");
}

static void *set_in_the_middle(void *unused)
{
	sleep_ms(100);
	struct timespec to = now(CLOCK_REALTIME);
	to.tv_sec += A_DAY_S;
	must(by_clock_settime(to, 0) == 0, "clock_settime");
	return unused;
}

static void keep(void)
{
	pthread_t setter;
	struct timespec request = from_ms(300), start = now(CLOCK_MONOTONIC);
	must(pthread_create(&setter, NULL, set_in_the_middle, NULL) == 0, "pthread_create");
	say("begin");
	long result = syscall(SYS_clock_nanosleep, CLOCK_REALTIME, 0, &request, NULL);
	say("end");
	say("ret=%ld", result);
	say("mono_ms=%.6f", ms_between(start, now(CLOCK_MONOTONIC)));
	pthread_join(setter, NULL);
}

static void say_answer(const char *what, long result)
{
	say("%s=%ld %s", what, result, result == -1 ? strerror(errno) : "");
}

static void refused(void)
{
	struct timespec good = now(CLOCK_MONOTONIC), bad_ns = { 0, NS_PER_S }, negative = { -1, 0 };
	struct timeval bad_us = { 0, 1000 * 1000 };
	struct timezone too_far = { 15 * 60 + 1, 0 };
	struct timex bad_offset = { .modes = ADJ_SETOFFSET };
	bad_offset.time.tv_usec = 1000 * 1000;
	say_answer("monotonic", syscall(SYS_clock_settime, CLOCK_MONOTONIC, &good));
	say_answer("boottime", syscall(SYS_clock_settime, CLOCK_BOOTTIME, &good));
	say_answer("tai", syscall(SYS_clock_settime, CLOCK_TAI, &good));
	say_answer("no such clock", syscall(SYS_clock_settime, 10, &good));
	say_answer("cpu clock", syscall(SYS_clock_settime, CLOCK_PROCESS_CPUTIME_ID, &good));
	say_answer("too many ns", syscall(SYS_clock_settime, CLOCK_REALTIME, &bad_ns));
	say_answer("negative", syscall(SYS_clock_settime, CLOCK_REALTIME, &negative));
	say_answer("pointer", syscall(SYS_clock_settime, CLOCK_REALTIME, (void *)1));
	say_answer("too many us", syscall(SYS_settimeofday, &bad_us, NULL));
	say_answer("time zone", syscall(SYS_settimeofday, NULL, &too_far));
	say_answer("settimeofday pointer", syscall(SYS_settimeofday, (void *)1, NULL));
	say_answer("too large an offset", syscall(SYS_adjtimex, &bad_offset));
	say_answer("adjtimex pointer", syscall(SYS_adjtimex, (void *)1));
}

static void read_only(void)
{
	struct timex state = { .modes = 0 };
	long result = syscall(SYS_adjtimex, &state);
	say("ok=%d", result >= 0);
	say("apart_s=%lld", (long long)state.time.tv_sec - (long long)now(CLOCK_REALTIME).tv_sec);
	memset(&state, 0, sizeof state);
	result = syscall(SYS_clock_adjtime, CLOCK_REALTIME, &state);
	say("clock_ok=%d", result >= 0);
	say("clock_apart_s=%lld",
	    (long long)state.time.tv_sec - (long long)now(CLOCK_REALTIME).tv_sec);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "set") == 0)
		set(argv[2]);
	else if (argc == 3 && strcmp(argv[1], "wake") == 0)
		wake(argv[2]);
	else if (argc == 2 && strcmp(argv[1], "keep") == 0)
		keep();
	else if (argc == 2 && strcmp(argv[1], "refused") == 0)
		refused();
	else if (argc == 2 && strcmp(argv[1], "read") == 0)
		read_only();
	else
		return 92;
	return 0;
}
