/* Prints, twenty times a second, a number, the wall clock and the monotonic clock, and what the processor's counter showed
 * before and after these were read: on one host, that tells the host's time to one who can compare both. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static uint64_t counter(void)
{
#if defined(__x86_64__)
	uint32_t low, high;

	__asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t count;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(count) : : "memory");
	return count;
#endif
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (long number = 0;; number++) {
		struct timespec wall, monotonic, pause = { 0, 50000000 };
		uint64_t before = counter(), after;

		clock_gettime(CLOCK_REALTIME, &wall);
		clock_gettime(CLOCK_MONOTONIC, &monotonic);
		after = counter();
		printf("%ld %ld.%09ld %ld.%09ld %" PRIu64 " %" PRIu64 "\n", number, wall.tv_sec, wall.tv_nsec,
		       monotonic.tv_sec, monotonic.tv_nsec, before, after);
		nanosleep(&pause, NULL);
	}
}
