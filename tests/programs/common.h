/* What all C test programs share: output in key=value lines, clocks in
 * milliseconds, and numbers that older or smaller C libraries do not name. */
#ifndef EIGENTIME_TESTS_COMMON_H
#define EIGENTIME_TESTS_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000L
#define NS_PER_MS 1000000L
#define US_PER_MS 1000L
#define MS_PER_S 1000L

#ifndef CLOCK_TAI
#define CLOCK_TAI 11
#endif

/* The size of the kernel's signal set, which is not the library's. */
#define KERNEL_SIGSET_BYTES 8

/* One whole line per write: lines of several threads and processes never mix,
 * and nothing waits in a buffer while the harness measures. */
static inline void say(const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(line, sizeof line - 1, format, args);
	va_end(args);
	if (length < 0)
		abort();
	if ((size_t)length > sizeof line - 2)
		length = sizeof line - 2;
	line[length++] = '\n';
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		_exit(90);
}

/* Ends the program when something failed that is not under test. */
static inline void die(const char *what)
{
	say("broken=%s: %s", what, strerror(errno));
	_exit(91);
}

static inline void must(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

static inline struct timespec now(clockid_t clock)
{
	struct timespec t;
	must(clock_gettime(clock, &t) == 0, "clock_gettime");
	return t;
}

static inline struct timespec from_ms(long ms)
{
	return (struct timespec){ .tv_sec = ms / MS_PER_S,
				  .tv_nsec = ms % MS_PER_S * NS_PER_MS };
}

static inline double to_ms(struct timespec t)
{
	return (double)t.tv_sec * MS_PER_S + (double)t.tv_nsec / NS_PER_MS;
}

static inline struct timespec plus_ms(struct timespec t, long ms)
{
	t.tv_sec += ms / MS_PER_S;
	t.tv_nsec += ms % MS_PER_S * NS_PER_MS;
	if (t.tv_nsec >= NS_PER_S) {
		t.tv_nsec -= NS_PER_S;
		t.tv_sec += 1;
	}
	return t;
}

static inline double ms_between(struct timespec from, struct timespec to)
{
	return (double)(to.tv_sec - from.tv_sec) * MS_PER_S +
	       (double)(to.tv_nsec - from.tv_nsec) / NS_PER_MS;
}

static inline void sleep_ms(long ms)
{
	struct timespec left = from_ms(ms);
	while (nanosleep(&left, &left) != 0)
		must(errno == EINTR, "nanosleep");
}

/* From then on only root can trace the program or read its memory. */
static inline void close_to_user(void)
{
	must(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "PR_SET_DUMPABLE");
}

/* Waits until a thread sleeps: on a busy machine it may not have begun its wait in time. */
static inline void await_sleep(pid_t thread)
{
	char path[32], state = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", thread);
	do {
		FILE *stat = fopen(path, "r");
		must(stat != NULL && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1, path);
		fclose(stat);
	} while (state != 'S');
}

#endif
