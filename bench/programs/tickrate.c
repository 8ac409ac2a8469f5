/* Prints how many ticks the counter makes per second, measured against
 * CLOCK_MONOTONIC_RAW.  Run it only on the host: a timeline scales that clock.
 *
 *   tickrate MILLISECONDS  */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ticks.h"

struct instant {
	uint64_t ticks;
	uint64_t ns;
};

static uint64_t raw_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Both clocks at one instant: of many tries, the one with the shortest
 * bracket of counter reads around the clock read. */
static struct instant both_clocks(void)
{
	struct instant best = {0, 0};
	uint64_t shortest = UINT64_MAX;
	for (int i = 0; i < 200; i++) {
		uint64_t before = ticks_now();
		uint64_t ns = raw_ns();
		uint64_t bracket = ticks_now() - before;
		if (bracket < shortest) {
			shortest = bracket;
			best = (struct instant){before + bracket / 2, ns};
		}
	}
	return best;
}

int main(int argc, char **argv)
{
	long ms = argc > 1 ? strtol(argv[1], NULL, 10) : 200;
	struct instant start = both_clocks();
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
	struct instant end = both_clocks();
	printf("%.0f\n", (double)(end.ticks - start.ticks) * 1e9 / (double)(end.ns - start.ns));
	return 0;
}
