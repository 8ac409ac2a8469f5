/* A process with threads that wait and threads that read the clock all the time.
 *
 *   threads WAITING SPINNING TICKS
 *
 * The main thread is one of those that wait: for lines on standard input.  It
 * prints "ready" once all others are at work, and for each line, how many
 * nanoseconds the monotonic clock advances while the counter makes at least TICKS,
 * and how many ticks it makes.  */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ticks.h"

enum { DAY_S = 86400, SETTLE_US = 50000 };

static _Atomic int at_work;

static int64_t monotonic_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *sleeps(void *unused)
{
	at_work++;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){DAY_S, 0}, NULL);
	return unused;
}

static void *polls(void *unused)
{
	at_work++;
	poll(NULL, 0, DAY_S * 1000);
	return unused;
}

static void *expects_a_signal(void *unused)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	struct timespec deadline;
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += DAY_S;
	pthread_mutex_lock(&lock);
	at_work++;
	pthread_cond_timedwait(&never, &lock, &deadline);
	return unused;
}

static void *spins(void *unused)
{
	at_work++;
	for (;;)
		monotonic_ns();
	return unused;
}

int main(int argc, char **argv)
{
	static void *(*const waits[])(void *) = {sleeps, polls, expects_a_signal};
	if (argc != 4) {
		fprintf(stderr, "usage: threads WAITING SPINNING TICKS\n");
		return 2;
	}
	int waiting = atoi(argv[1]) - 1, spinning = atoi(argv[2]);
	uint64_t ticks = strtoull(argv[3], NULL, 10);
	for (int i = 0; i < waiting + spinning; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, i < waiting ? waits[i % 3] : spins, NULL) != 0) {
			fprintf(stderr, "threads: no thread\n");
			return 1;
		}
	}
	while (at_work < waiting + spinning)
		usleep(1000);
	usleep(SETTLE_US);
	printf("ready\n");
	fflush(stdout);
	while (getchar() == '\n') {
		uint64_t start = ticks_now();
		int64_t before = monotonic_ns();
		while (ticks_now() - start < ticks)
			;
		int64_t moved = monotonic_ns() - before;
		printf("%" PRId64 " %" PRIu64 "\n", moved, ticks_now() - start);
		fflush(stdout);
	}
	return 0;
}
