/* Four threads read clocks for MS of CPU time each and count backward steps, both
 * within one thread and between threads.
 *
 *   monotonic MS */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, CLOCKS = 4, RAW_EVERY = 64 };

static const struct {
	const char *name;
	clockid_t clock;
} clocks[CLOCKS] = {
	{ "monotonic", CLOCK_MONOTONIC },
	{ "boottime", CLOCK_BOOTTIME },
	{ "monotonic_raw", CLOCK_MONOTONIC_RAW },
	{ "realtime", CLOCK_REALTIME },
};

/* The latest completed reading of each clock by any thread. */
static atomic_llong latest[CLOCKS];
static atomic_long backward[CLOCKS], backward_raw[CLOCKS], reads;
static atomic_llong worst;
static long cpu_ms;

static long long read_ns(clockid_t clock, bool raw)
{
	struct timespec t;
	must((raw ? syscall(SYS_clock_gettime, clock, &t) : clock_gettime(clock, &t)) == 0,
	     "clock_gettime");
	return (long long)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void *read_clocks(void *unused)
{
	(void)unused;
	for (long round = 0;; round++) {
		bool raw = round % RAW_EVERY == 0;
		if (raw && to_ms(now(CLOCK_THREAD_CPUTIME_ID)) > (double)cpu_ms)
			return NULL;
		for (int i = 0; i < CLOCKS; i++) {
			long long before = atomic_load(&latest[i]);
			long long time = read_ns(clocks[i].clock, raw);
			if (time < before) {
				atomic_fetch_add(raw ? &backward_raw[i] : &backward[i], 1);
				if (before - time > atomic_load(&worst))
					atomic_store(&worst, before - time);
			}
			while (before < time &&
			       !atomic_compare_exchange_weak(&latest[i], &before, time))
				;
		}
		atomic_fetch_add(&reads, CLOCKS);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 92;
	cpu_ms = strtol(argv[1], NULL, 10);
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], NULL, read_clocks, NULL) == 0, "pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < CLOCKS; i++) {
		say("backward_%s=%ld", clocks[i].name, backward[i]);
		say("backward_raw_%s=%ld", clocks[i].name, backward_raw[i]);
	}
	say("reads=%ld", reads);
	say("worst_ns=%lld", worst);
	return 0;
}
