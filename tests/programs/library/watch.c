/* Reads the library's clocks between two readings of the kernel's.
 *
 * For every line on standard input: key=value lines in nanoseconds, ended by `done`. `outside` is
 * how far the library's clocks are from where the kernel's and the stated errors allow them. */
#include <eigentime.h>
#include <stdio.h>
#include <time.h>

static int64_t kernel(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t outside(int64_t before, int64_t seen, int64_t after, uint64_t error)
{
	if (seen + (int64_t)error < before)
		return before - seen - (int64_t)error;
	if (seen - (int64_t)error > after)
		return seen - (int64_t)error - after;
	return 0;
}

int main(void)
{
	char line[16];
	eigentime_now();
	while (fgets(line, sizeof line, stdin)) {
		eigentime_reading reading = EIGENTIME_READING_INIT;
		int64_t monotonic = kernel(CLOCK_MONOTONIC), wall = kernel(CLOCK_REALTIME);
		if (eigentime_read_ordered(&reading) != 0)
			return 1;
		int64_t wall_after = kernel(CLOCK_REALTIME), monotonic_after = kernel(CLOCK_MONOTONIC);
		printf("monotonic=%lld\n", (long long)reading.monotonic_ns);
		printf("wall=%lld\n", (long long)reading.wall_ns);
		printf("outside=%lld\n", (long long)outside(monotonic, reading.monotonic_ns, monotonic_after,
							    reading.error_ns));
		printf("wall_outside=%lld\n",
		       (long long)outside(wall, reading.wall_ns, wall_after, reading.wall_error_ns));
		printf("counts=%d\n", eigentime_trust() == EIGENTIME_SOURCE_COUNTER);
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
