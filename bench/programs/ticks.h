/* The one clock that no level scales: the processor's own counter.
 *
 * The programs print counts of ticks; the harness turns them into nanoseconds
 * with the frequency that `tickrate` measured on the host.  */
#ifndef EIGENBENCH_TICKS_H
#define EIGENBENCH_TICKS_H

#include <stdint.h>

/* The fence keeps the read from moving into the work that is being timed. */
static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
	uint32_t low, high;
	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t count;
	__asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(count) : : "memory");
	return count;
#else
#error "no counter known for this architecture"
#endif
}

#endif
