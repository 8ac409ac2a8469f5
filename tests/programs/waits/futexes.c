/* Every futex operation that takes a time. Nothing ever wakes these waiters. */
#include "waits.h"

#include <pthread.h>

/* From linux/futex.h, which musl-gcc cannot see. */
enum {
	FUTEX_WAIT = 0,
	FUTEX_LOCK_PI = 6,
	FUTEX_WAIT_BITSET = 9,
	FUTEX_WAIT_REQUEUE_PI = 11,
	FUTEX_LOCK_PI2 = 13,
	FUTEX_PRIVATE_FLAG = 128,
	FUTEX_CLOCK_REALTIME = 256,
};
#define FUTEX_BITSET_MATCH_ANY 0xffffffffU
#define FUTEX2_SIZE_U32 0x02U
#define FUTEX2_PRIVATE 128U
#define SYS_FUTEX_WAITV 449
#define SYS_FUTEX_WAIT 455

static uint32_t word, lock;

static long futex(uint32_t *address, int operation, uint32_t value, const struct timespec *timeout,
		  uint32_t *second, uint32_t bits)
{
	return syscall(SYS_futex, address, operation, value, timeout, second, bits);
}

static void wait_(long ms)
{
	struct timespec timeout = from_ms(ms);
	begin();
	end(futex(&word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &timeout, NULL, 0));
	report("untouched_ms", to_ms(timeout));
}

static void wait_shared(long ms)
{
	struct timespec timeout = from_ms(ms);
	begin();
	end(futex(&word, FUTEX_WAIT, 0, &timeout, NULL, 0));
}

static void wait_bitset(clockid_t clock, int flags, long ms)
{
	begin();
	struct timespec until = deadline(clock, ms);
	end(futex(&word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | flags, 0, &until, NULL,
		  FUTEX_BITSET_MATCH_ANY));
}

static void wait_bitset_monotonic(long ms) { wait_bitset(CLOCK_MONOTONIC, 0, ms); }
static void wait_bitset_realtime(long ms)
{
	wait_bitset(CLOCK_REALTIME, FUTEX_CLOCK_REALTIME, ms);
}

static void *hold_lock(void *held)
{
	must(futex(&lock, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0) == 0, "FUTEX_LOCK_PI");
	must(write(*(int *)held, "h", 1) == 1, "write");
	for (;;)
		pause();
	return NULL;
}

/* Makes another thread own `lock` from here on. */
static void have_lock_held(void)
{
	static int held;
	struct pipe_ends ends = new_pipe();
	held = ends.write;
	pthread_t owner;
	must(pthread_create(&owner, NULL, hold_lock, &held) == 0, "pthread_create");
	char byte;
	must(read(ends.read, &byte, 1) == 1, "read");
}

static void lock_pi(int operation, clockid_t clock, long ms)
{
	have_lock_held();
	begin();
	struct timespec until = deadline(clock, ms);
	end(futex(&lock, operation | FUTEX_PRIVATE_FLAG, 0, &until, NULL, 0));
}

static void lock_pi_(long ms) { lock_pi(FUTEX_LOCK_PI, CLOCK_REALTIME, ms); }
static void lock_pi2_monotonic(long ms) { lock_pi(FUTEX_LOCK_PI2, CLOCK_MONOTONIC, ms); }
static void lock_pi2_realtime(long ms)
{
	lock_pi(FUTEX_LOCK_PI2 | FUTEX_CLOCK_REALTIME, CLOCK_REALTIME, ms);
}

static bool has_lock_pi(void)
{
	uint32_t free_lock = 0;
	return futex(&free_lock, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0) == 0;
}

static bool has_lock_pi2(void)
{
	uint32_t free_lock = 0;
	return futex(&free_lock, FUTEX_LOCK_PI2 | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0) == 0;
}

static void wait_requeue_pi(int flags, clockid_t clock, long ms)
{
	begin();
	struct timespec until = deadline(clock, ms);
	end(futex(&word, FUTEX_WAIT_REQUEUE_PI | FUTEX_PRIVATE_FLAG | flags, 0, &until, &lock,
		  FUTEX_BITSET_MATCH_ANY));
}

static void wait_requeue_pi_monotonic(long ms) { wait_requeue_pi(0, CLOCK_MONOTONIC, ms); }
static void wait_requeue_pi_realtime(long ms)
{
	wait_requeue_pi(FUTEX_CLOCK_REALTIME, CLOCK_REALTIME, ms);
}

struct waiter {
	uint64_t value, address;
	uint32_t flags, reserved;
};

static void waitv(clockid_t clock, long ms)
{
	struct waiter waiter = { .address = (uintptr_t)&word,
				 .flags = FUTEX2_SIZE_U32 | FUTEX2_PRIVATE };
	begin();
	struct timespec until = deadline(clock, ms);
	end(syscall(SYS_FUTEX_WAITV, &waiter, 1, 0, &until, clock));
}

static void waitv_monotonic(long ms) { waitv(CLOCK_MONOTONIC, ms); }
static void waitv_realtime(long ms) { waitv(CLOCK_REALTIME, ms); }

static bool has_waitv(void)
{
	return syscall(SYS_FUTEX_WAITV, NULL, 0, 0, NULL, 0) == -1 && errno != ENOSYS;
}

static void futex2_wait(clockid_t clock, long ms)
{
	begin();
	struct timespec until = deadline(clock, ms);
	end(syscall(SYS_FUTEX_WAIT, &word, 0L, (unsigned long)FUTEX_BITSET_MATCH_ANY,
		    FUTEX2_SIZE_U32 | FUTEX2_PRIVATE, &until, clock));
}

static void futex2_wait_monotonic(long ms) { futex2_wait(CLOCK_MONOTONIC, ms); }
static void futex2_wait_realtime(long ms) { futex2_wait(CLOCK_REALTIME, ms); }

static bool has_futex2_wait(void)
{
	return syscall(SYS_FUTEX_WAIT, NULL, 0L, 0L, ~0U, NULL, 0) == -1 && errno != ENOSYS;
}

const struct wait futexes[] = {
	{ "futex_wait", NULL, wait_ },
	{ "futex_wait_shared", NULL, wait_shared },
	{ "futex_wait_bitset_monotonic_abs", NULL, wait_bitset_monotonic },
	{ "futex_wait_bitset_realtime_abs", NULL, wait_bitset_realtime },
	{ "futex_lock_pi_realtime_abs", has_lock_pi, lock_pi_ },
	{ "futex_lock_pi2_monotonic_abs", has_lock_pi2, lock_pi2_monotonic },
	{ "futex_lock_pi2_realtime_abs", has_lock_pi2, lock_pi2_realtime },
	{ "futex_wait_requeue_pi_monotonic_abs", has_lock_pi, wait_requeue_pi_monotonic },
	{ "futex_wait_requeue_pi_realtime_abs", has_lock_pi, wait_requeue_pi_realtime },
	{ "futex_waitv_monotonic_abs", has_waitv, waitv_monotonic },
	{ "futex_waitv_realtime_abs", has_waitv, waitv_realtime },
	{ "futex2_wait_monotonic_abs", has_futex2_wait, futex2_wait_monotonic },
	{ "futex2_wait_realtime_abs", has_futex2_wait, futex2_wait_realtime },
	{ NULL, NULL, NULL },
};
