/* Programs of which nobody may see, but by a clock, whether a library was loaded before them:
 * all that they print is the same with and without it. */
#ifndef EIGENTIME_TESTS_PRELOAD_H
#define EIGENTIME_TESTS_PRELOAD_H

#include "../common.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>

/* The clock of the kernel itself, whatever is loaded. */
static inline long kernel_ns(clockid_t clock)
{
	struct timespec t;
	must(syscall(SYS_clock_gettime, clock, &t) == 0, "clock_gettime");
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Those that wait for so many nanoseconds: what they answer. `left` is what they say is left,
 * or -1. */
struct wait {
	const char *name;
	int (*call)(long ns, long *left);
};
extern const struct wait waits[];
extern const int wait_count;

/* Sends SIGALRM to this thread in so many microseconds, and does nothing with it but count. */
void alarm_in_us(long us);
void alarm_to(void (*handler)(int), long us);
extern volatile sig_atomic_t alarms;

void answers(void);
void interrupted(void);
void handlers(void);
void jumps(void);
void cancelled(void);
void cancelled_before(void);
void forked(void);
void closed(void);
void sandboxed(void);
void synced(void);
void uncounted(void);
void threads(void);
void storm(void);
void agree(void);
void misses(void);
void early(void);
void idle(void);
void paced(long ms);
void filtered(const char *program, const char *library);

#endif
