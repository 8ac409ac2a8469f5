/* Waits for completions: Linux AIO and io_uring. Nothing is ever submitted, so
 * only the timeout ends them. */
#include "waits.h"

#define SYS_IO_PGETEVENTS 333
#define SYS_IO_URING_SETUP 425
#define SYS_IO_URING_ENTER 426

struct aio_event {
	uint64_t data, object;
	int64_t result, result2;
};

static unsigned long aio_context(void)
{
	unsigned long context = 0;
	return syscall(SYS_io_setup, 1, &context) == 0 ? context : 0;
}

static bool has_aio(void)
{
	return aio_context() != 0;
}

static void io_getevents_(long ms)
{
	unsigned long context = aio_context();
	struct aio_event event;
	struct timespec timeout = from_ms(ms);
	begin();
	end(syscall(SYS_io_getevents, context, 1L, 1L, &event, &timeout));
}

static void io_pgetevents_(long ms)
{
	unsigned long context = aio_context();
	struct aio_event event;
	struct timespec timeout = from_ms(ms);
	uint64_t mask = 0;
	struct {
		const uint64_t *mask;
		size_t bytes;
	} signals = { &mask, KERNEL_SIGSET_BYTES };
	begin();
	end(syscall(SYS_IO_PGETEVENTS, context, 1L, 1L, &event, &timeout, &signals));
}

/* linux/io_uring.h */
struct uring_params {
	uint32_t sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd;
	uint32_t reserved[3];
	uint64_t offsets[10];
};
struct uring_wait {
	uint64_t sigmask;
	uint32_t sigmask_bytes, min_wait_usec;
	uint64_t timeout;
};
#define ENTER_GETEVENTS 1U
#define ENTER_EXT_ARG 8U
#define ENTER_ABS_TIMER 32U
#define FEATURE_EXT_ARG (1U << 8)

static int new_ring(uint32_t *features)
{
	struct uring_params params = { 0 };
	int ring = (int)syscall(SYS_IO_URING_SETUP, 4, &params);
	*features = params.features;
	return ring;
}

static long enter(int ring, unsigned flags, const struct timespec *timeout)
{
	struct uring_wait wait = { .timeout = (uintptr_t)timeout };
	return syscall(SYS_IO_URING_ENTER, ring, 0, 1, ENTER_GETEVENTS | ENTER_EXT_ARG | flags, &wait,
		       sizeof wait);
}

static bool has_uring_timeout(void)
{
	uint32_t features;
	return new_ring(&features) >= 0 && features & FEATURE_EXT_ARG;
}

static bool has_uring_deadline(void)
{
	uint32_t features;
	int ring = new_ring(&features);
	struct timespec past = { 0, 1 };
	return ring >= 0 && enter(ring, ENTER_ABS_TIMER, &past) == -1 && errno == ETIME;
}

static void io_uring_enter_(long ms)
{
	uint32_t features;
	int ring = new_ring(&features);
	struct timespec timeout = from_ms(ms);
	begin();
	end(enter(ring, 0, &timeout));
}

static void io_uring_enter_abs(long ms)
{
	uint32_t features;
	int ring = new_ring(&features);
	begin();
	struct timespec until = deadline(CLOCK_MONOTONIC, ms);
	end(enter(ring, ENTER_ABS_TIMER, &until));
}

const struct wait rings[] = {
	{ "io_getevents", has_aio, io_getevents_ },
	{ "io_pgetevents", has_aio, io_pgetevents_ },
	{ "io_uring_enter", has_uring_timeout, io_uring_enter_ },
	{ "io_uring_enter_abs", has_uring_deadline, io_uring_enter_abs },
	{ NULL, NULL, NULL },
};
