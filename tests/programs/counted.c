/* Prints, twenty times a second, a number, the wall clock and the monotonic clock, and what the processor's counter showed
 * before and after these were read: on one host, that tells the host's time to one who can compare both. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "../../bench/programs/ticks.h"

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (long number = 0;; number++) {
		struct timespec wall, monotonic, pause = { 0, 50000000 };
		uint64_t before = ticks_now(), after;

		clock_gettime(CLOCK_REALTIME, &wall);
		clock_gettime(CLOCK_MONOTONIC, &monotonic);
		after = ticks_now();
		printf("%ld %ld.%09ld %ld.%09ld %" PRIu64 " %" PRIu64 "\n", number, wall.tv_sec, wall.tv_nsec,
		       monotonic.tv_sec, monotonic.tv_nsec, before, after);
		nanosleep(&pause, NULL);
	}
}
