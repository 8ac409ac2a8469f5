/* Threads that sleep for eleven days, each in one of several ways.
 *
 *   sleepers PROCESSES THREADS     that many processes with that many threads each
 *
 * Says `ready` once all of them have been made. */
#include "common.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>

#define LONG_MS (1000L * 1000 * MS_PER_S)

static void by_nanosleep(void)
{
	sleep_ms(LONG_MS);
}

static void by_poll(void)
{
	must(poll(NULL, 0, LONG_MS) == 0, "poll");
}

/* Waits in a futex, for a date. */
static void by_semaphore(void)
{
	sem_t semaphore;
	struct timespec until = plus_ms(now(CLOCK_REALTIME), LONG_MS);
	must(sem_init(&semaphore, 0, 0) == 0, "sem_init");
	must(sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT, "sem_timedwait");
}

static void (*const ways[])(void) = { by_nanosleep, by_poll, by_semaphore };
enum { WAYS = sizeof ways / sizeof *ways };

static void *sleep_in(void *way)
{
	ways[(intptr_t)way]();
	return NULL;
}

static void make_threads(long count)
{
	pthread_t thread;
	for (intptr_t i = 0; i < count; i++)
		must(pthread_create(&thread, NULL, sleep_in, (void *)(i % WAYS)) == 0,
		     "pthread_create");
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 92;
	long processes = strtol(argv[1], NULL, 10), threads = strtol(argv[2], NULL, 10);
	int made[2];
	must(pipe(made) == 0, "pipe");
	for (long i = 1; i < processes; i++) {
		pid_t child = fork();
		must(child >= 0, "fork");
		if (child == 0) {
			make_threads(threads - 1);
			must(write(made[1], "x", 1) == 1, "write");
			by_nanosleep();
			return 0;
		}
	}
	make_threads(threads - 1);
	char byte;
	for (long i = 1; i < processes; i++)
		must(read(made[0], &byte, 1) == 1, "read");
	say("ready");
	by_nanosleep();
	return 0;
}
