/* Plain sleeps. */
#include "waits.h"

#include <pthread.h>

static void nanosleep_(long ms)
{
	struct timespec request = from_ms(ms), remain = { 77, 77 };
	begin();
	end(syscall(SYS_nanosleep, &request, &remain));
	/* Nothing interrupted it, so the kernel must not have written here. */
	report("untouched_ms", to_ms(remain));
}

static void relative(clockid_t clock, long ms)
{
	struct timespec request = from_ms(ms);
	begin();
	end(syscall(SYS_clock_nanosleep, clock, 0, &request, NULL));
}

static void absolute(clockid_t clock, long ms)
{
	begin();
	struct timespec until = deadline(clock, ms);
	end(syscall(SYS_clock_nanosleep, clock, TIMER_ABSTIME, &until, NULL));
}

static void realtime_relative(long ms) { relative(CLOCK_REALTIME, ms); }
static void realtime_absolute(long ms) { absolute(CLOCK_REALTIME, ms); }
static void monotonic_relative(long ms) { relative(CLOCK_MONOTONIC, ms); }
static void monotonic_absolute(long ms) { absolute(CLOCK_MONOTONIC, ms); }
static void boottime_relative(long ms) { relative(CLOCK_BOOTTIME, ms); }
static void boottime_absolute(long ms) { absolute(CLOCK_BOOTTIME, ms); }
static void tai_relative(long ms) { relative(CLOCK_TAI, ms); }
static void tai_absolute(long ms) { absolute(CLOCK_TAI, ms); }

static void libc_nanosleep(long ms)
{
	struct timespec request = from_ms(ms);
	begin();
	end(nanosleep(&request, NULL));
}

static void libc_usleep(long ms)
{
	begin();
	end(usleep((useconds_t)(ms * US_PER_MS)));
}

static void libc_sleep(long ms)
{
	begin();
	end((long)sleep((unsigned)(ms / MS_PER_S)));
}

static void *burn_forever(void *unused)
{
	(void)unused;
	for (volatile unsigned long i = 0;; i++)
		;
	return NULL;
}

/* CPU time stays host time: this sleep is not translated. */
static void process_cputime(long ms)
{
	pthread_t burner;
	must(pthread_create(&burner, NULL, burn_forever, NULL) == 0, "pthread_create");
	struct timespec request = from_ms(ms);
	begin();
	struct timespec before = now(CLOCK_PROCESS_CPUTIME_ID);
	long result = syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, 0, &request, NULL);
	struct timespec after = now(CLOCK_PROCESS_CPUTIME_ID);
	end(result);
	report("cpu_ms", ms_between(before, after));
}

const struct wait sleeps[] = {
	{ "nanosleep", NULL, nanosleep_ },
	{ "clock_nanosleep_realtime", NULL, realtime_relative },
	{ "clock_nanosleep_realtime_abs", NULL, realtime_absolute },
	{ "clock_nanosleep_monotonic", NULL, monotonic_relative },
	{ "clock_nanosleep_monotonic_abs", NULL, monotonic_absolute },
	{ "clock_nanosleep_boottime", NULL, boottime_relative },
	{ "clock_nanosleep_boottime_abs", NULL, boottime_absolute },
	{ "clock_nanosleep_tai", NULL, tai_relative },
	{ "clock_nanosleep_tai_abs", NULL, tai_absolute },
	{ "clock_nanosleep_cputime", NULL, process_cputime },
	{ "libc_nanosleep", NULL, libc_nanosleep },
	{ "libc_usleep", NULL, libc_usleep },
	{ "libc_sleep", NULL, libc_sleep },
	{ NULL, NULL, NULL },
};
