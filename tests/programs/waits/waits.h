/* One row per way to wait: its name on the command line, how to find out
 * whether the kernel has it, and the wait itself. */
#ifndef EIGENTIME_TESTS_WAITS_H
#define EIGENTIME_TESTS_WAITS_H

#include "../common.h"

struct wait {
	const char *name;
	/* NULL: every kernel has it. */
	bool (*supported)(void);
	/* Waits `ms` milliseconds between begin() and end(). */
	void (*run)(long ms);
};

/* Each ends with a row whose name is NULL. */
extern const struct wait sleeps[];
extern const struct wait descriptors[];
extern const struct wait messages[];
extern const struct wait futexes[];
extern const struct wait rings[];
extern const struct wait timers[];
extern const struct wait timer_descriptors[];
extern const struct wait threads[];

/* How many expirations of a periodic timer to wait for. */
enum { TICKS = 4 };

/* A late waiter gets more expirations than it waits for, but none before its time. */
static inline long ticks_waited_for(long ticks, struct timespec start, long ms)
{
	double passed = ms_between(start, now(CLOCK_MONOTONIC));
	return ticks > TICKS && (double)ticks * (double)ms / TICKS <= passed ? TICKS : ticks;
}

/* Reads the clocks and reports to the harness that the wait starts. */
void begin(void);
/* Reports to the harness that the wait is over; prints its result, errno and the
 * time that passed on the wall clock and on CLOCK_MONOTONIC since begin(). */
void end(long result);
/* begin()'s reading of this clock plus `ms`. */
struct timespec deadline(clockid_t clock, long ms);
/* A second result in milliseconds, such as a remaining time. */
void report(const char *key, double ms);

/* Writes one byte to `fd` after `ms`, in a thread of its own. */
void write_later(int fd, long ms);
/* A pipe that nothing writes to unless write_later() is used. */
struct pipe_ends {
	int read, write;
};
struct pipe_ends new_pipe(void);

#endif
