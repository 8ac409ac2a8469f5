/* Two programs compare their clocks through a shared file.
 *
 *   agree answer FILE         reads a clock whenever the other asks
 *   agree ask FILE LIMIT_NS   asks, between two readings of its own
 *
 * If both share one clock, the other's reading lies between the two, and each round
 * bounds by how much the other's clock can be ahead of or behind this one. The asker
 * continues until these bounds are within LIMIT_NS for every fine clock, or until its
 * input ends; a LIMIT_NS of -1 is never reached. Then it prints, for each clock N:
 * low_N and high_N, the bounds on how far the other's clock is ahead, wrong_N, how
 * often a reading was not between the two, and worst_N, by how much at most. */
#include "common.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { FREE, ASKED, ANSWERED, FINISHED };

struct shared {
	_Atomic int state;
	clockid_t clock;
	long long answer;
};

/* The coarse clocks do not advance for up to a tick, which bounds nothing. */
static const clockid_t clocks[] = {
	CLOCK_REALTIME,	     CLOCK_MONOTONIC,	    CLOCK_MONOTONIC_RAW,   CLOCK_BOOTTIME,
	CLOCK_TAI,	     CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE,
};
enum { CLOCKS = sizeof clocks / sizeof *clocks, FINE_CLOCKS = CLOCKS - 2 };

static struct {
	long long low, high, worst;
	long wrong;
} seen[CLOCKS];

enum { LEAST_ROUNDS = 2000, SPINS = 2000, ROUNDS_PER_LOOK = 64 };

static long long read_ns(clockid_t clock)
{
	struct timespec t = now(clock);
	return (long long)t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* The other may need this processor to answer. */
static void wait_until_not(_Atomic int *state, int value)
{
	for (int spins = 0; atomic_load_explicit(state, memory_order_acquire) == value; spins++)
		if (spins >= SPINS)
			sched_yield();
}

static void answer(struct shared *shared)
{
	for (;;) {
		wait_until_not(&shared->state, FREE);
		wait_until_not(&shared->state, ANSWERED);
		int state = atomic_load_explicit(&shared->state, memory_order_acquire);
		if (state == FINISHED)
			return;
		if (state != ASKED)
			continue;
		shared->answer = read_ns(shared->clock);
		atomic_store_explicit(&shared->state, ANSWERED, memory_order_release);
	}
}

static void ask_one(struct shared *shared, int which)
{
	shared->clock = clocks[which];
	long long before = read_ns(clocks[which]);
	atomic_store_explicit(&shared->state, ASKED, memory_order_release);
	wait_until_not(&shared->state, ASKED);
	long long between = shared->answer;
	long long after = read_ns(clocks[which]);

	long long early = before - between, late = between - after;
	long long off = early > late ? early : late;
	if (off > 0)
		seen[which].wrong++;
	if (off > seen[which].worst)
		seen[which].worst = off;
	if (late > seen[which].low)
		seen[which].low = late;
	if (-early < seen[which].high)
		seen[which].high = -early;
}

static bool bounded(long long limit)
{
	for (int i = 0; i < FINE_CLOCKS; i++)
		if (-seen[i].low > limit || seen[i].high > limit)
			return false;
	return true;
}

static bool input_ended(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	return poll(&input, 1, 0) != 0;
}

static void ask(struct shared *shared, long long limit)
{
	for (int i = 0; i < CLOCKS; i++) {
		seen[i].low = LLONG_MIN;
		seen[i].high = LLONG_MAX;
	}
	say("begin");
	long rounds = 0;
	do {
		for (int i = 0; i < CLOCKS; i++)
			ask_one(shared, i);
		rounds++;
	} while ((rounds < LEAST_ROUNDS || !bounded(limit)) &&
		 (rounds % ROUNDS_PER_LOOK != 0 || !input_ended()));
	atomic_store(&shared->state, FINISHED);
	say("rounds=%ld", rounds);
	for (int i = 0; i < CLOCKS; i++) {
		say("low_%d=%lld", clocks[i], seen[i].low);
		say("high_%d=%lld", clocks[i], seen[i].high);
		say("wrong_%d=%ld", clocks[i], seen[i].wrong);
		say("worst_%d=%lld", clocks[i], seen[i].worst);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: agree answer FILE | agree ask FILE LIMIT_NS\n");
		return 92;
	}
	int fd = open(argv[2], O_RDWR);
	must(fd >= 0, "open");
	struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(shared != MAP_FAILED, "mmap");
	if (argc == 4 && strcmp(argv[1], "ask") == 0)
		ask(shared, strtoll(argv[3], NULL, 10));
	else
		answer(shared);
	return 0;
}
