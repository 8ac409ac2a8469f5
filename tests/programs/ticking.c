/* Prints a number, the wall clock, the monotonic clock, and the wall clock again, ten times a second. */
#include <stdio.h>
#include <time.h>

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (long number = 0;; number++) {
		struct timespec wall, monotonic, after, pause = { 0, 100000000 };

		clock_gettime(CLOCK_REALTIME, &wall);
		clock_gettime(CLOCK_MONOTONIC, &monotonic);
		clock_gettime(CLOCK_REALTIME, &after);
		printf("%ld %ld.%09ld %ld.%09ld %ld.%09ld\n", number, wall.tv_sec, wall.tv_nsec, monotonic.tv_sec,
		       monotonic.tv_nsec, after.tv_sec, after.tv_nsec);
		nanosleep(&pause, NULL);
	}
}
