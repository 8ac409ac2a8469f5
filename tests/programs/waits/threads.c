/* The C library's timed waits of threads. */
#include "waits.h"

#include <pthread.h>
#include <semaphore.h>
#include <threads.h>

/* These return an error number; end() wants -1 and errno. */
static void end_pthread(int error)
{
	errno = error;
	end(error ? -1 : 0);
}

static void cond_timedwait(clockid_t clock, long ms)
{
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	must(pthread_condattr_setclock(&attributes, clock) == 0, "pthread_condattr_setclock");
	pthread_cond_t condition;
	pthread_cond_init(&condition, &attributes);
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&mutex);
	begin();
	struct timespec until = deadline(clock, ms);
	int error;
	do
		error = pthread_cond_timedwait(&condition, &mutex, &until);
	while (error == 0);
	end_pthread(error);
}

static void cond_timedwait_realtime(long ms) { cond_timedwait(CLOCK_REALTIME, ms); }
static void cond_timedwait_monotonic(long ms) { cond_timedwait(CLOCK_MONOTONIC, ms); }

struct held {
	pthread_mutex_t mutex;
	pthread_rwlock_t rwlock;
	int told;
};

static void *hold(void *argument)
{
	struct held *held = argument;
	must(pthread_mutex_lock(&held->mutex) == 0, "pthread_mutex_lock");
	must(pthread_rwlock_wrlock(&held->rwlock) == 0, "pthread_rwlock_wrlock");
	must(write(held->told, "h", 1) == 1, "write");
	for (;;)
		pause();
	return NULL;
}

static struct held *locks_held_by_another(void)
{
	static struct held held = { .mutex = PTHREAD_MUTEX_INITIALIZER,
				    .rwlock = PTHREAD_RWLOCK_INITIALIZER };
	struct pipe_ends ends = new_pipe();
	held.told = ends.write;
	pthread_t owner;
	must(pthread_create(&owner, NULL, hold, &held) == 0, "pthread_create");
	char byte;
	must(read(ends.read, &byte, 1) == 1, "read");
	return &held;
}

static void mutex_timedlock(long ms)
{
	struct held *held = locks_held_by_another();
	begin();
	struct timespec until = deadline(CLOCK_REALTIME, ms);
	end_pthread(pthread_mutex_timedlock(&held->mutex, &until));
}

static void rwlock_timedrdlock(long ms)
{
	struct held *held = locks_held_by_another();
	begin();
	struct timespec until = deadline(CLOCK_REALTIME, ms);
	end_pthread(pthread_rwlock_timedrdlock(&held->rwlock, &until));
}

static void sem_timedwait_(long ms)
{
	sem_t semaphore;
	sem_init(&semaphore, 0, 0);
	begin();
	struct timespec until = deadline(CLOCK_REALTIME, ms);
	end(sem_timedwait(&semaphore, &until));
}

static void c11_thrd_sleep(long ms)
{
	struct timespec duration = from_ms(ms);
	begin();
	end(thrd_sleep(&duration, NULL));
}

#ifdef __GLIBC__
static void *wait_forever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void timedjoin(long ms)
{
	pthread_t thread;
	must(pthread_create(&thread, NULL, wait_forever, NULL) == 0, "pthread_create");
	begin();
	struct timespec until = deadline(CLOCK_REALTIME, ms);
	end_pthread(pthread_timedjoin_np(thread, NULL, &until));
}

static void mutex_clocklock(long ms)
{
	struct held *held = locks_held_by_another();
	begin();
	struct timespec until = deadline(CLOCK_MONOTONIC, ms);
	end_pthread(pthread_mutex_clocklock(&held->mutex, CLOCK_MONOTONIC, &until));
}

static void sem_clockwait_(long ms)
{
	sem_t semaphore;
	sem_init(&semaphore, 0, 0);
	begin();
	struct timespec until = deadline(CLOCK_MONOTONIC, ms);
	end(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until));
}
#endif

const struct wait threads[] = {
	{ "pthread_cond_timedwait_realtime_abs", NULL, cond_timedwait_realtime },
	{ "pthread_cond_timedwait_monotonic_abs", NULL, cond_timedwait_monotonic },
	{ "pthread_mutex_timedlock_realtime_abs", NULL, mutex_timedlock },
	{ "pthread_rwlock_timedrdlock_realtime_abs", NULL, rwlock_timedrdlock },
	{ "sem_timedwait_realtime_abs", NULL, sem_timedwait_ },
	{ "c11_thrd_sleep", NULL, c11_thrd_sleep },
#ifdef __GLIBC__
	{ "pthread_timedjoin_np_realtime_abs", NULL, timedjoin },
	{ "pthread_mutex_clocklock_monotonic_abs", NULL, mutex_clocklock },
	{ "sem_clockwait_monotonic_abs", NULL, sem_clockwait_ },
#endif
	{ NULL, NULL, NULL },
};
