/* Timers that are read like files. */
#include "waits.h"

#include <poll.h>
#include <sys/timerfd.h>

static int new_timerfd(clockid_t clock)
{
	int fd = timerfd_create(clock, TFD_CLOEXEC);
	must(fd >= 0, "timerfd_create");
	return fd;
}

static long read_expirations(int fd)
{
	uint64_t expirations = 0;
	ssize_t got = read(fd, &expirations, sizeof expirations);
	return got == sizeof expirations ? (long)expirations : -1;
}

static void report_left(int fd)
{
	struct itimerspec left;
	must(timerfd_gettime(fd, &left) == 0, "timerfd_gettime");
	report("left_ms", to_ms(left.it_value));
}

static void relative(clockid_t clock, long ms)
{
	int fd = new_timerfd(clock);
	begin();
	struct itimerspec setting = { .it_value = from_ms(20 * ms), .it_interval = from_ms(7 * ms) };
	must(timerfd_settime(fd, 0, &setting, NULL) == 0, "timerfd_settime");
	struct itimerspec old;
	setting = (struct itimerspec){ .it_value = from_ms(ms) };
	must(timerfd_settime(fd, 0, &setting, &old) == 0, "timerfd_settime");
	report_left(fd);
	end(read_expirations(fd));
	report("old_ms", to_ms(old.it_value));
	report("old_interval_ms", to_ms(old.it_interval));
}

static void absolute(clockid_t clock, long ms)
{
	int fd = new_timerfd(clock);
	begin();
	struct itimerspec setting = { .it_value = deadline(clock, ms) };
	must(timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, NULL) == 0, "timerfd_settime");
	report_left(fd);
	end(read_expirations(fd));
}

static void realtime_relative(long ms) { relative(CLOCK_REALTIME, ms); }
static void realtime_absolute(long ms) { absolute(CLOCK_REALTIME, ms); }
static void monotonic_relative(long ms) { relative(CLOCK_MONOTONIC, ms); }
static void monotonic_absolute(long ms) { absolute(CLOCK_MONOTONIC, ms); }
static void boottime_relative(long ms) { relative(CLOCK_BOOTTIME, ms); }
static void boottime_absolute(long ms) { absolute(CLOCK_BOOTTIME, ms); }

static void interval(long ms)
{
	int fd = new_timerfd(CLOCK_MONOTONIC);
	struct timespec set = now(CLOCK_MONOTONIC);
	begin();
	struct itimerspec setting = { .it_value = from_ms(ms / TICKS),
				      .it_interval = from_ms(ms / TICKS) };
	must(timerfd_settime(fd, 0, &setting, NULL) == 0, "timerfd_settime");
	long ticks = 0;
	while (ticks < TICKS)
		ticks += read_expirations(fd);
	end(ticks_waited_for(ticks, set, ms));
	must(timerfd_gettime(fd, &setting) == 0, "timerfd_gettime");
	report("interval_ms", to_ms(setting.it_interval));
}

/* The poll has no timeout; only the timer ends it. */
static void polled(long ms)
{
	int fd = new_timerfd(CLOCK_MONOTONIC);
	begin();
	struct itimerspec setting = { .it_value = from_ms(ms) };
	must(timerfd_settime(fd, 0, &setting, NULL) == 0, "timerfd_settime");
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	end(poll(&ready, 1, -1));
}

const struct wait timer_descriptors[] = {
	{ "timerfd_realtime", NULL, realtime_relative },
	{ "timerfd_realtime_abs", NULL, realtime_absolute },
	{ "timerfd_monotonic", NULL, monotonic_relative },
	{ "timerfd_monotonic_abs", NULL, monotonic_absolute },
	{ "timerfd_boottime", NULL, boottime_relative },
	{ "timerfd_boottime_abs", NULL, boottime_absolute },
	{ "timerfd_interval", NULL, interval },
	{ "timerfd_polled", NULL, polled },
	{ NULL, NULL, NULL },
};
