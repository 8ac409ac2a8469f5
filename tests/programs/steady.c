/* Reads clocks continuously and checks for what must never be seen.
 *
 *   steady forward THREADS   that a clock steps back
 *   steady after SECONDS     that the wall clock shows an instant before this one
 *
 * Prints `ready` once every thread reads, continues until its input ends, and prints
 * what it saw: reads, and for each clock N back_N (how often it stepped back) and
 * largest_N (by how many nanoseconds at most); or `wrong`. */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

static const clockid_t clocks[] = {
	CLOCK_REALTIME, CLOCK_MONOTONIC,	CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
	CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_TAI,
};
enum { CLOCKS = sizeof clocks / sizeof *clocks, MOST_THREADS = 64 };

static _Atomic bool stop;
static _Atomic int reading;

static struct seen {
	long reads;
	long back[CLOCKS];
	long long largest[CLOCKS];
} all[MOST_THREADS];

static void *read_forward(void *argument)
{
	struct seen *seen = argument;
	struct timespec last[CLOCKS];
	for (int i = 0; i < CLOCKS; i++)
		last[i] = now(clocks[i]);
	atomic_fetch_add(&reading, 1);
	while (!stop)
		for (int i = 0; i < CLOCKS; i++) {
			struct timespec t = now(clocks[i]);
			long long back = (long long)(last[i].tv_sec - t.tv_sec) * NS_PER_S +
					 (last[i].tv_nsec - t.tv_nsec);
			if (back > 0)
				seen->back[i]++;
			if (back > seen->largest[i])
				seen->largest[i] = back;
			last[i] = t;
			seen->reads++;
		}
	return NULL;
}

static void forward(int count)
{
	must(count <= MOST_THREADS, "too many threads");
	pthread_t threads[MOST_THREADS];
	for (int i = 0; i < count; i++)
		must(pthread_create(&threads[i], NULL, read_forward, &all[i]) == 0, "pthread_create");
	while (reading < count)
		usleep(100);
	say("ready");
	while (getchar() != EOF)
		;
	stop = true;
	struct seen sum = { 0 };
	for (int i = 0; i < count; i++) {
		must(pthread_join(threads[i], NULL) == 0, "pthread_join");
		sum.reads += all[i].reads;
		for (int clock = 0; clock < CLOCKS; clock++) {
			sum.back[clock] += all[i].back[clock];
			if (all[i].largest[clock] > sum.largest[clock])
				sum.largest[clock] = all[i].largest[clock];
		}
	}
	say("reads=%ld", sum.reads);
	for (int clock = 0; clock < CLOCKS; clock++) {
		say("back_%d=%ld", clocks[clock], sum.back[clock]);
		say("largest_%d=%lld", clocks[clock], sum.largest[clock]);
	}
}

/* Through the vDSO, by system calls, and after a sleep, so that it is caught
 * wherever its supervisor leaves it. A call that fails shows no time. */
static void *read_after(void *argument)
{
	time_t least = *(time_t *)argument;
	for (;;) {
		struct timespec t;
		if (now(CLOCK_REALTIME).tv_sec < least)
			say("wrong=vdso");
		if (syscall(SYS_clock_gettime, CLOCK_REALTIME, &t) == 0 && t.tv_sec < least)
			say("wrong=clock_gettime");
		long seconds = syscall(SYS_time, NULL);
		if (seconds != -1 && seconds < least)
			say("wrong=time");
		nanosleep(&(struct timespec){ .tv_nsec = NS_PER_MS }, NULL);
	}
	return NULL;
}

static void after(time_t least)
{
	pthread_t thread;
	must(pthread_create(&thread, NULL, read_after, &least) == 0, "pthread_create");
	say("ready");
	while (getchar() != EOF)
		;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "forward") == 0) {
		forward(atoi(argv[2]));
	} else if (argc == 3 && strcmp(argv[1], "after") == 0) {
		after(strtol(argv[2], NULL, 10));
	} else {
		fprintf(stderr, "usage: steady forward THREADS | steady after SECONDS\n");
		return 92;
	}
	return 0;
}
