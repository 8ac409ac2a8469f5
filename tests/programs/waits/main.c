/* Waits in one given way for a given time:
 *
 *   waits NAME MS          performs the wait, prints what it saw
 *   waits NAME MS closed   the same, after it has closed itself to its user
 *   waits --names          prints the names of all waits this kernel has
 *
 * Prints `begin`, waits, prints `end`, then key=value lines: ret, errno,
 * mono_ms and real_ms (time passed by the program's own clocks), and what the
 * call wrote back, such as remain_ms. Exit status 0 unless the test itself
 * broke; whether the wait was right is for the harness to say. */
#include "waits.h"

#include <pthread.h>

static const struct wait *const groups[] = {
	sleeps, descriptors, messages, futexes,
	rings,	timers,	     timer_descriptors, threads,
};

static struct timespec monotonic_start, real_start;
/* Absolute deadlines count from begin(), on whichever clock they use. */
static struct timespec starts[CLOCK_TAI + 1];

void begin(void)
{
	say("begin");
	/* What passes by a clock is read around all deadlines of the others, since a busy machine
	 * may let time pass between any two readings. */
	monotonic_start = now(CLOCK_MONOTONIC);
	real_start = now(CLOCK_REALTIME);
	starts[CLOCK_REALTIME] = real_start;
	starts[CLOCK_BOOTTIME] = now(CLOCK_BOOTTIME);
	starts[CLOCK_TAI] = now(CLOCK_TAI);
	starts[CLOCK_MONOTONIC] = now(CLOCK_MONOTONIC);
}

void end(long result)
{
	int error = result == -1 ? errno : 0;
	struct timespec real_end = now(CLOCK_REALTIME);
	struct timespec monotonic_end = now(CLOCK_MONOTONIC);
	say("end");
	say("ret=%ld", result);
	say("errno=%d", error);
	report("mono_ms", ms_between(monotonic_start, monotonic_end));
	report("real_ms", ms_between(real_start, real_end));
}

struct timespec deadline(clockid_t clock, long ms)
{
	return plus_ms(starts[clock], ms);
}

void report(const char *key, double ms)
{
	say("%s=%.6f", key, ms);
}

struct pipe_ends new_pipe(void)
{
	int ends[2];
	must(pipe(ends) == 0, "pipe");
	return (struct pipe_ends){ .read = ends[0], .write = ends[1] };
}

struct later {
	int fd;
	long ms;
};

static void *write_after_sleep(void *argument)
{
	struct later *later = argument;
	await_sleep(getpid());
	sleep_ms(later->ms);
	must(write(later->fd, "x", 1) == 1, "write");
	return NULL;
}

void write_later(int fd, long ms)
{
	static struct later later;
	later = (struct later){ .fd = fd, .ms = ms };
	pthread_t thread;
	must(pthread_create(&thread, NULL, write_after_sleep, &later) == 0, "pthread_create");
}

static void print_names(void)
{
	for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
		for (const struct wait *wait = groups[g]; wait->name; wait++)
			if (!wait->supported || wait->supported())
				say("%s", wait->name);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--names") == 0) {
		print_names();
		return 0;
	}
	bool closed = argc == 4 && strcmp(argv[3], "closed") == 0;
	if (argc != 3 && !closed) {
		fprintf(stderr, "usage: waits NAME MS [closed] | waits --names\n");
		return 92;
	}
	if (closed)
		close_to_user();
	long ms = strtol(argv[2], NULL, 10);
	for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
		for (const struct wait *wait = groups[g]; wait->name; wait++)
			if (strcmp(wait->name, argv[1]) == 0) {
				wait->run(ms);
				return 0;
			}
	fprintf(stderr, "waits: no wait is called %s\n", argv[1]);
	return 92;
}
