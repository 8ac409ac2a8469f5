/* The only clock that no level scales: the processor's counter.
 *
 * The programs print ticks; the harness converts them to nanoseconds with the
 * frequency that `tickrate` measured on the host.  */
#ifndef EIGENBENCH_TICKS_H
#define EIGENBENCH_TICKS_H

#include <stdint.h>

/* The fence keeps the read from moving into the timed work. */
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
