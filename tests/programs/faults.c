/* Passes a bad, invalid, unusual or read-only time to every call that takes one and
 * prints the result, a line each. The harness compares the lines with and without
 * Eigentime: a program must not see a difference.
 *
 *   faults pointers    addresses the kernel cannot read
 *   faults values      times that are invalid or zero
 *   faults endless     no timeout, or the largest
 *   faults readonly    a valid time in memory that cannot be written */
#include "common.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>

enum {
	FUTEX_WAIT = 0,
	FUTEX_WAIT_BITSET = 9,
	FUTEX_WAIT_REQUEUE_PI = 11,
	FUTEX_CLOCK_REALTIME = 256,
};
#define FUTEX2_SIZE_U32 0x02U
#define SYS_IO_PGETEVENTS 333
#define SYS_EPOLL_PWAIT2 441
#define SYS_FUTEX_WAITV 449
#define SYS_FUTEX_WAIT 455

/* The objects that the calls use; nothing here becomes ready by itself. */
static int quiet_pipe[2], sockets[2], epoll, timer_fd, semaphores;
static unsigned long aio;
static int timer;
static uint32_t word, second_word;

static long call_clock_gettime(void *t) { return syscall(SYS_clock_gettime, CLOCK_REALTIME, t); }
static long call_clock_gettime_monotonic(void *t)
{
	return syscall(SYS_clock_gettime, CLOCK_MONOTONIC, t);
}
static long call_clock_getres(void *t) { return syscall(SYS_clock_getres, CLOCK_REALTIME, t); }
static long call_gettimeofday(void *t) { return syscall(SYS_gettimeofday, t, NULL); }
static long call_gettimeofday_zone(void *t) { return syscall(SYS_gettimeofday, NULL, t); }
static long call_time(void *t) { return syscall(SYS_time, t) == -1 ? -1 : 0; }
static long call_nanosleep(void *t) { return syscall(SYS_nanosleep, t, NULL); }
static long call_clock_nanosleep(void *t)
{
	return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, t, NULL);
}
static long call_clock_nanosleep_abs(void *t)
{
	return syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, t, NULL);
}
static long call_ppoll(void *t)
{
	struct pollfd fd = { .fd = quiet_pipe[0], .events = POLLIN };
	return syscall(SYS_ppoll, &fd, 1, t, NULL, 0);
}
static fd_set *quiet_set(void)
{
	static fd_set set;
	FD_ZERO(&set);
	FD_SET(quiet_pipe[0], &set);
	return &set;
}
static long call_select(void *t)
{
	return syscall(SYS_select, quiet_pipe[0] + 1, quiet_set(), NULL, NULL, t);
}
static long call_pselect6(void *t)
{
	return syscall(SYS_pselect6, quiet_pipe[0] + 1, quiet_set(), NULL, NULL, t, NULL);
}
static long call_epoll_pwait2(void *t)
{
	struct epoll_event event;
	return syscall(SYS_EPOLL_PWAIT2, epoll, &event, 1, t, NULL, 0L);
}
static long futex(int operation, void *t)
{
	return syscall(SYS_futex, &word, operation, 0, t, &second_word, ~0U);
}
static long call_futex_wait(void *t) { return futex(FUTEX_WAIT, t); }
static long call_futex_bitset(void *t) { return futex(FUTEX_WAIT_BITSET, t); }
static long call_futex_bitset_realtime(void *t)
{
	return futex(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, t);
}
static long call_futex_requeue(void *t) { return futex(FUTEX_WAIT_REQUEUE_PI, t); }
static long call_futex_waitv(void *t)
{
	struct {
		uint64_t value, address;
		uint32_t flags, reserved;
	} waiter = { .address = (uintptr_t)&word, .flags = FUTEX2_SIZE_U32 };
	return syscall(SYS_FUTEX_WAITV, &waiter, 1, 0, t, CLOCK_REALTIME);
}
static long call_futex2_wait(void *t)
{
	return syscall(SYS_FUTEX_WAIT, &word, 0L, 0xffffffffUL, FUTEX2_SIZE_U32, t, CLOCK_REALTIME);
}
static long call_rt_sigtimedwait(void *t)
{
	uint64_t wanted = 1UL << (SIGUSR2 - 1);
	return syscall(SYS_rt_sigtimedwait, &wanted, NULL, t, KERNEL_SIGSET_BYTES);
}
static long call_semtimedop(void *t)
{
	struct sembuf take = { .sem_op = -1 };
	return syscall(SYS_semtimedop, semaphores, &take, 1L, t);
}
static long call_recvmmsg(void *t)
{
	struct mmsghdr header = { 0 };
	return syscall(SYS_recvmmsg, sockets[0], &header, 1, MSG_DONTWAIT, t);
}
static long call_io_getevents(void *t)
{
	char events[32];
	return syscall(SYS_io_getevents, aio, 1L, 1L, events, t);
}
static long call_io_pgetevents(void *t)
{
	char events[32];
	return syscall(SYS_IO_PGETEVENTS, aio, 1L, 1L, events, t, NULL);
}
static long call_so_rcvtimeo(void *t)
{
	return syscall(SYS_setsockopt, sockets[0], SOL_SOCKET, SO_RCVTIMEO, t, 16L);
}

/* These take two times: an interval, then a value. */
static long call_timer_settime(void *t)
{
	return syscall(SYS_timer_settime, timer, 0, t, NULL);
}
static long call_timerfd_settime(void *t)
{
	return syscall(SYS_timerfd_settime, timer_fd, 0, t, NULL);
}
static long call_setitimer(void *t) { return syscall(SYS_setitimer, ITIMER_REAL, t, NULL); }

/* The kernel writes to these. */
static const struct itimerspec no_time;
static long call_timer_settime_old(void *t)
{
	return syscall(SYS_timer_settime, timer, 0, &no_time, t);
}
static long call_timer_gettime(void *t) { return syscall(SYS_timer_gettime, timer, t); }
static long call_timerfd_settime_old(void *t)
{
	return syscall(SYS_timerfd_settime, timer_fd, 0, &no_time, t);
}
static long call_timerfd_gettime(void *t) { return syscall(SYS_timerfd_gettime, timer_fd, t); }
static long call_setitimer_old(void *t)
{
	return syscall(SYS_setitimer, ITIMER_REAL, &no_time, t);
}
static long call_getitimer(void *t) { return syscall(SYS_getitimer, ITIMER_REAL, t); }
static long call_adjtimex(void *t) { return syscall(SYS_adjtimex, t); }
static long call_clock_adjtime(void *t)
{
	return syscall(SYS_clock_adjtime, CLOCK_REALTIME, t);
}

enum kind {
	TIMESPEC = 1,
	TIMEVAL = 2,
	TWO_TIMES = 4, /* an interval and a value */
	OUT = 8, /* the kernel only writes it, so values make no sense */
	UNCHECKED = 16, /* the kernel accepts invalid ones, and waits for a long time */
};

static const struct row {
	const char *name;
	long (*call)(void *time);
	int kind;
} rows[] = {
	{ "clock_gettime", call_clock_gettime, OUT },
	{ "clock_gettime_monotonic", call_clock_gettime_monotonic, OUT },
	{ "clock_getres", call_clock_getres, OUT },
	{ "gettimeofday", call_gettimeofday, OUT },
	{ "gettimeofday_zone", call_gettimeofday_zone, OUT },
	{ "time", call_time, OUT },
	{ "nanosleep", call_nanosleep, TIMESPEC },
	{ "clock_nanosleep", call_clock_nanosleep, TIMESPEC },
	{ "clock_nanosleep_abs", call_clock_nanosleep_abs, TIMESPEC },
	{ "ppoll", call_ppoll, TIMESPEC },
	{ "select", call_select, TIMEVAL },
	{ "pselect6", call_pselect6, TIMESPEC },
	{ "epoll_pwait2", call_epoll_pwait2, TIMESPEC },
	{ "futex_wait", call_futex_wait, TIMESPEC },
	{ "futex_wait_bitset", call_futex_bitset, TIMESPEC },
	{ "futex_wait_bitset_realtime", call_futex_bitset_realtime, TIMESPEC },
	{ "futex_wait_requeue_pi", call_futex_requeue, TIMESPEC },
	{ "futex_waitv", call_futex_waitv, TIMESPEC },
	{ "futex2_wait", call_futex2_wait, TIMESPEC },
	{ "rt_sigtimedwait", call_rt_sigtimedwait, TIMESPEC },
	{ "semtimedop", call_semtimedop, TIMESPEC },
	{ "recvmmsg", call_recvmmsg, TIMESPEC },
	{ "io_getevents", call_io_getevents, TIMESPEC | UNCHECKED },
	{ "io_pgetevents", call_io_pgetevents, TIMESPEC | UNCHECKED },
	{ "so_rcvtimeo", call_so_rcvtimeo, TIMEVAL },
	{ "timer_settime", call_timer_settime, TIMESPEC | TWO_TIMES },
	{ "timer_settime_old", call_timer_settime_old, OUT },
	{ "timer_gettime", call_timer_gettime, OUT },
	{ "timerfd_settime", call_timerfd_settime, TIMESPEC | TWO_TIMES },
	{ "timerfd_settime_old", call_timerfd_settime_old, OUT },
	{ "timerfd_gettime", call_timerfd_gettime, OUT },
	{ "setitimer", call_setitimer, TIMEVAL | TWO_TIMES },
	{ "setitimer_old", call_setitimer_old, OUT },
	{ "getitimer", call_getitimer, OUT },
	{ "adjtimex", call_adjtimex, OUT },
	{ "clock_adjtime", call_clock_adjtime, OUT },
};
enum { ROWS = sizeof rows / sizeof *rows };

static void say_answer(const char *name, const char *variant, long result)
{
	say("%s %s=%ld %s", name, variant, result, result == -1 ? strerror(errno) : "");
}

static void set_up(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct sigevent signal = { .sigev_notify = SIGEV_NONE };
	must(pipe(quiet_pipe) == 0, "pipe");
	must(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0, "socketpair");
	must((epoll = epoll_create1(0)) >= 0, "epoll_create1");
	must(epoll_ctl(epoll, EPOLL_CTL_ADD, quiet_pipe[0], &event) == 0, "epoll_ctl");
	must((timer_fd = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0, "timerfd_create");
	must((semaphores = semget(IPC_PRIVATE, 1, 0600)) >= 0, "semget");
	must(syscall(SYS_io_setup, 1, &aio) == 0, "io_setup");
	must(syscall(SYS_timer_create, CLOCK_MONOTONIC, &signal, &timer) == 0, "timer_create");
	sigset_t usr2;
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	must(sigprocmask(SIG_BLOCK, &usr2, NULL) == 0, "sigprocmask");
}

static void *pages(int count, int protection)
{
	size_t bytes = (size_t)count * (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(memory != MAP_FAILED, "mmap");
	return memory;
}

/* Excludes NULL, which several calls allow. */
static void bad_pointers(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	/* The first half of a time can be read, the second half cannot. */
	char *border = pages(2, PROT_READ | PROT_WRITE);
	must(munmap(border + page, page) == 0, "munmap");
	const struct {
		const char *name;
		void *address;
	} bad[] = {
		{ "one", (void *)1 },
		{ "no access", pages(1, PROT_NONE) },
		{ "page border", border + page - sizeof(long) },
		{ "not canonical", (void *)0x8000000000000000UL },
		{ "kernel", (void *)0xffffffff80000000UL },
		{ "last", (void *)-8L },
	};
	for (size_t r = 0; r < ROWS; r++)
		for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
			/* 8 bytes fit before the border. */
			bool short_one = rows[r].call == call_time || rows[r].call == call_gettimeofday_zone;
			if (short_one && strcmp(bad[b].name, "page border") == 0)
				continue;
			say_answer(rows[r].name, bad[b].name, rows[r].call(bad[b].address));
		}
}

static void values(void)
{
	/* select() accepts a million microseconds as a second. */
	const struct {
		const char *name;
		long seconds, ns, us;
	} all[] = {
		{ "zero", 0, 0, 0 },
		{ "too many parts", 0, NS_PER_S, 1000000 },
		{ "negative parts", 0, -1, -1 },
		{ "negative seconds", -1, 0, 0 },
		{ "both negative", -1, -1, -1 },
		{ "least seconds", INT64_MIN, 0, 0 },
		{ "least parts", 0, INT64_MIN, INT64_MIN },
		{ "one part", 0, 1, 1 },
	};
	for (size_t r = 0; r < ROWS; r++) {
		if (rows[r].kind & OUT)
			continue;
		for (size_t v = 0; v < sizeof all / sizeof *all; v++) {
			bool invalid = all[v].seconds != 0 || all[v].ns < 0 || all[v].ns > 1;
			if (rows[r].kind & UNCHECKED && invalid)
				continue;
			long part = rows[r].kind & TIMEVAL ? all[v].us : all[v].ns;
			long once[2] = { all[v].seconds, part };
			long as_value[4] = { 0, 0, all[v].seconds, part };
			long as_interval[4] = { all[v].seconds, part, 1000, 0 };
			if (!(rows[r].kind & TWO_TIMES)) {
				say_answer(rows[r].name, all[v].name, rows[r].call(once));
				continue;
			}
			/* With a single part, SIGALRM would end the program. */
			if (all[v].ns == 1)
				continue;
			say_answer(rows[r].name, all[v].name, rows[r].call(as_value));
			char name[64];
			snprintf(name, sizeof name, "interval of %s", all[v].name);
			say_answer(rows[r].name, name, rows[r].call(as_interval));
			rows[r].call((long[4]){ 0, 0, 0, 0 });
		}
	}
	/* The same for milliseconds. */
	struct pollfd fd = { .fd = quiet_pipe[0], .events = POLLIN };
	struct epoll_event event;
	say_answer("poll", "zero", syscall(SYS_poll, &fd, 1, 0));
	say_answer("epoll_wait", "zero", syscall(SYS_epoll_wait, epoll, &event, 1, 0));
	say_answer("epoll_pwait", "zero", syscall(SYS_epoll_pwait, epoll, &event, 1, 0, NULL, 0L));
}

static void *make_ready(void *unused)
{
	(void)unused;
	sleep_ms(50);
	must(write(quiet_pipe[1], "x", 1) == 1, "write");
	return NULL;
}

/* Waits forever, or almost: only the byte in the pipe ends them. */
static void endless(void)
{
	struct pollfd fd = { .fd = quiet_pipe[0], .events = POLLIN };
	struct epoll_event event;
	char byte;
	enum { COUNT = 14 };
	for (int i = 0; i < COUNT; i++) {
		struct timespec most = { INT64_MAX, NS_PER_S - 1 };
		struct timeval most_val = { INT64_MAX, 999999 };
		long result;
		pthread_t thread;
		must(pthread_create(&thread, NULL, make_ready, NULL) == 0, "pthread_create");
		switch (i) {
		case 0: result = syscall(SYS_poll, &fd, 1, -1); break;
		case 1: result = syscall(SYS_poll, &fd, 1, -1000); break;
		case 2: result = syscall(SYS_poll, &fd, 1, INT32_MAX); break;
		case 3: result = syscall(SYS_poll, &fd, 1, INT32_MIN); break;
		case 4: result = call_ppoll(NULL); break;
		case 5: result = call_ppoll(&most); break;
		case 6: result = call_select(NULL); break;
		case 7: result = call_select(&most_val); break;
		case 8: result = call_pselect6(NULL); break;
		case 9: result = call_pselect6(&most); break;
		case 10: result = syscall(SYS_epoll_wait, epoll, &event, 1, -1); break;
		case 11: result = syscall(SYS_epoll_wait, epoll, &event, 1, INT32_MAX); break;
		case 12: result = call_epoll_pwait2(NULL); break;
		default: result = call_epoll_pwait2(&most); break;
		}
		char name[16];
		snprintf(name, sizeof name, "%d", i);
		say_answer("endless", name, result);
		must(read(quiet_pipe[0], &byte, 1) == 1, "read");
		pthread_join(thread, NULL);
	}
}

static void readonly(void)
{
	const long few_ms[4] = { 0, 0, 0, 3 * NS_PER_MS };
	long *memory = pages(1, PROT_READ | PROT_WRITE);
	for (size_t r = 0; r < ROWS; r++) {
		if (rows[r].kind & OUT)
			continue;
		bool two = rows[r].kind & TWO_TIMES;
		must(mprotect(memory, 1, PROT_READ | PROT_WRITE) == 0, "mprotect");
		memcpy(memory, two ? few_ms : few_ms + 2, 2 * sizeof(long) * (two ? 2 : 1));
		if (rows[r].kind & TIMEVAL)
			memory[two ? 3 : 1] = 3 * US_PER_MS;
		must(mprotect(memory, 1, PROT_READ) == 0, "mprotect");
		/* The alarm is the only one of these timers with a visible effect. */
		signal(SIGALRM, SIG_IGN);
		say_answer(rows[r].name, "read only", rows[r].call(memory));
	}
}

int main(int argc, char **argv)
{
	set_up();
	const char *what = argc == 2 ? argv[1] : "";
	int status = 0;
	if (strcmp(what, "pointers") == 0)
		bad_pointers();
	else if (strcmp(what, "values") == 0)
		values();
	else if (strcmp(what, "endless") == 0)
		endless();
	else if (strcmp(what, "readonly") == 0)
		readonly();
	else
		status = 92;
	semctl(semaphores, 0, IPC_RMID);
	return status;
}
