/* What the clocks show, how late waits end, and what they cost. */
#include "preload.h"

/* Between two readings of the kernel's own clock each reading must lie, but for what is known to
 * be the clock's error: by how much it does not, in nanoseconds. */
void agree(void)
{
	const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_REALTIME };
	const char *names[] = { "monotonic", "realtime" };
	long worst[2] = { 0, 0 }, backwards[2] = { 0, 0 };
	for (int c = 0; c < 2; c++) {
		long last = 0;
		for (int i = 0; i < 200000; i++) {
			long before = kernel_ns(clocks[c]);
			struct timespec t = now(clocks[c]);
			long shown = t.tv_sec * NS_PER_S + t.tv_nsec;
			long after = kernel_ns(clocks[c]);
			long off = shown < before ? before - shown : shown > after ? shown - after : 0;
			if (off > worst[c])
				worst[c] = off;
			if (shown < last && last - shown > backwards[c])
				backwards[c] = last - shown;
			last = shown;
		}
		say("%s_off=%ld", names[c], worst[c]);
		say("%s_backwards=%ld", names[c], backwards[c]);
	}
	struct timeval tv;
	long before = kernel_ns(CLOCK_REALTIME);
	gettimeofday(&tv, NULL);
	long after = kernel_ns(CLOCK_REALTIME);
	long shown = tv.tv_sec * NS_PER_S + tv.tv_usec * 1000L;
	say("gettimeofday_off=%ld", shown < before - 1000 ? before - shown : shown > after ? shown - after : 0);
	time_t seconds = time(NULL);
	say("time_off=%ld", labs((long)seconds - kernel_ns(CLOCK_REALTIME) / NS_PER_S));
}

static int by_size(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;
	return (x > y) - (x < y);
}

/* By the kernel's clock. */
void misses(void)
{
	enum { ROUNDS = 200 };
	for (int i = 0; i < wait_count; i++) {
		static long all[ROUNDS];
		for (int round = 0; round < ROUNDS; round++) {
			long left, begin = kernel_ns(CLOCK_MONOTONIC);
			waits[i].call(NS_PER_MS, &left);
			all[round] = kernel_ns(CLOCK_MONOTONIC) - begin - NS_PER_MS;
		}
		qsort(all, ROUNDS, sizeof *all, by_size);
		say("%s_least=%ld", waits[i].name, all[0]);
		/* Of those that nobody has disturbed: on a busy machine that is not half of them. */
		say("%s_decile=%ld", waits[i].name, all[ROUNDS / 10]);
	}
}

/* Many short waits, and how many of them the kernel's own clock shows to have ended early. `poll`
 * counts in milliseconds. */
void early(void)
{
	enum { ROUNDS = 1500, SHORTEST_US = 10, LENGTHS = 7 };
	for (int i = 0; i < wait_count; i++) {
		if (strncmp(waits[i].name, "poll", strlen("poll")) == 0)
			continue;
		int count = 0;
		for (int round = 0; round < ROUNDS; round++) {
			long left, ns = (SHORTEST_US + round % LENGTHS) * 1000L;
			long end = kernel_ns(CLOCK_MONOTONIC) + ns;
			waits[i].call(ns, &left);
			count += kernel_ns(CLOCK_MONOTONIC) < end;
		}
		say("%s_early=%d", waits[i].name, count);
	}
	int count = 0;
	for (int round = 0; round < ROUNDS; round++) {
		long end = kernel_ns(CLOCK_MONOTONIC) + (SHORTEST_US + round % LENGTHS) * 1000L;
		struct timespec t = { end / NS_PER_S, end % NS_PER_S };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		count += kernel_ns(CLOCK_MONOTONIC) < end;
	}
	say("until_kernel_early=%d", count);
}

/* Of the time that passes, what is used of a processor, in thousandths. */
void idle(void)
{
	struct rusage used;
	long begin = kernel_ns(CLOCK_MONOTONIC);
	sleep(1);
	for (int i = 0; i < 20; i++)
		usleep(50000);
	long passed = kernel_ns(CLOCK_MONOTONIC) - begin;
	must(getrusage(RUSAGE_SELF, &used) == 0, "getrusage");
	long micros = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec +
		      used.ru_stime.tv_usec;
	say("cpu_thousandths=%ld", micros * 1000 * 1000 / passed);
}

/* A line when each wait begins and when it has ended, as in the programs of the languages. */
void paced(long ms)
{
	for (int i = 0; i < wait_count; i++) {
		say("%s begin", waits[i].name);
		struct timespec mono = now(CLOCK_MONOTONIC), real = now(CLOCK_REALTIME);
		long left;
		must(waits[i].call(ms * NS_PER_MS, &left) == 0, waits[i].name);
		double mono_ms = ms_between(mono, now(CLOCK_MONOTONIC));
		double real_ms = ms_between(real, now(CLOCK_REALTIME));
		say("%s end wanted_ms=%ld mono_ms=%f real_ms=%f", waits[i].name, ms, mono_ms, real_ms);
	}
}
