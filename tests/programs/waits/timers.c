/* Timers that send a signal: POSIX timers, interval timers, alarm. The wait is
 * sigwaitinfo(), which takes no time itself. */
#include "waits.h"

#include <sys/time.h>

/* The kernel's timer IDs, not the library's pointers. */
typedef int kernel_timer;

static void block(int signal)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, signal);
	must(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "sigprocmask");
}

static int wait_for(int signal)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, signal);
	int got;
	while ((got = sigwaitinfo(&set, NULL)) == -1)
		must(errno == EINTR, "sigwaitinfo");
	return got;
}

static kernel_timer new_timer(clockid_t clock)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	kernel_timer timer;
	block(SIGUSR1);
	must(syscall(SYS_timer_create, clock, &event, &timer) == 0, "timer_create");
	return timer;
}

static void start(kernel_timer timer, int flags, struct itimerspec setting)
{
	must(syscall(SYS_timer_settime, timer, flags, &setting, NULL) == 0, "timer_settime");
}

/* The remaining time right after starting, then what a second setting returns. */
static void report_left(kernel_timer timer)
{
	struct itimerspec left;
	must(syscall(SYS_timer_gettime, timer, &left) == 0, "timer_gettime");
	report("left_ms", to_ms(left.it_value));
}

static void timer_relative(clockid_t clock, long ms)
{
	kernel_timer timer = new_timer(clock);
	begin();
	struct itimerspec long_setting = { .it_value = from_ms(20 * ms),
					   .it_interval = from_ms(7 * ms) };
	start(timer, 0, long_setting);
	struct itimerspec setting = { .it_value = from_ms(ms) }, old;
	must(syscall(SYS_timer_settime, timer, 0, &setting, &old) == 0, "timer_settime");
	report_left(timer);
	end(wait_for(SIGUSR1));
	report("old_ms", to_ms(old.it_value));
	report("old_interval_ms", to_ms(old.it_interval));
}

static void timer_absolute(clockid_t clock, long ms)
{
	kernel_timer timer = new_timer(clock);
	begin();
	start(timer, TIMER_ABSTIME, (struct itimerspec){ .it_value = deadline(clock, ms) });
	report_left(timer);
	end(wait_for(SIGUSR1));
}

static void timer_realtime(long ms) { timer_relative(CLOCK_REALTIME, ms); }
static void timer_realtime_abs(long ms) { timer_absolute(CLOCK_REALTIME, ms); }
static void timer_monotonic(long ms) { timer_relative(CLOCK_MONOTONIC, ms); }
static void timer_monotonic_abs(long ms) { timer_absolute(CLOCK_MONOTONIC, ms); }
static void timer_boottime(long ms) { timer_relative(CLOCK_BOOTTIME, ms); }
static void timer_boottime_abs(long ms) { timer_absolute(CLOCK_BOOTTIME, ms); }
static void timer_tai(long ms) { timer_relative(CLOCK_TAI, ms); }
static void timer_tai_abs(long ms) { timer_absolute(CLOCK_TAI, ms); }

static void timer_interval(long ms)
{
	kernel_timer timer = new_timer(CLOCK_MONOTONIC);
	struct timespec set = now(CLOCK_MONOTONIC);
	begin();
	start(timer, 0,
	      (struct itimerspec){ .it_value = from_ms(ms / TICKS), .it_interval = from_ms(ms / TICKS) });
	long ticks = 0;
	while (ticks < TICKS) {
		wait_for(SIGUSR1);
		ticks += 1 + (int)syscall(SYS_timer_getoverrun, timer);
	}
	end(ticks_waited_for(ticks, set, ms));
	struct itimerspec left;
	must(syscall(SYS_timer_gettime, timer, &left) == 0, "timer_gettime");
	report("interval_ms", to_ms(left.it_interval));
}

/* The end of the mapped part of the stack. */
static unsigned long stack_end(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	must(maps != NULL, "/proc/self/maps");
	char line[512];
	unsigned long end = 0;
	while (fgets(line, sizeof line, maps) != NULL)
		if (strstr(line, "[stack]") != NULL)
			end = strtoul(line, NULL, 16);
	fclose(maps);
	must(end != 0, "a stack");
	return end;
}

/* The same wait with the stack pointer there: whatever needs stack must let it grow. */
static void timer_at_stack_end(long ms)
{
	kernel_timer timer = new_timer(CLOCK_MONOTONIC);
	uint64_t set = 1 << (SIGUSR1 - 1);
	unsigned long stack = stack_end() + 16;
	long got = -EINTR;
	begin();
	start(timer, 0, (struct itimerspec){ .it_value = from_ms(ms) });
	while (got == -EINTR) {
		register unsigned long size __asm__("r10") = sizeof set;
		__asm__ volatile("xchg %%rsp, %[stack]\n\tsyscall\n\txchg %%rsp, %[stack]"
				 : "=a"(got), [stack] "+r"(stack), "+r"(size)
				 : "0"(SYS_rt_sigtimedwait), "D"(&set), "S"(NULL), "d"(NULL)
				 : "rcx", "r11", "memory");
	}
	end((int)got);
}

/* CPU time stays host time, so its timers are not translated. */
static void timer_cputime(long ms)
{
	kernel_timer timer = new_timer(CLOCK_PROCESS_CPUTIME_ID);
	begin();
	start(timer, 0, (struct itimerspec){ .it_value = from_ms(ms) });
	report_left(timer);
	sigset_t pending;
	do
		sigpending(&pending);
	while (!sigismember(&pending, SIGUSR1));
	end(SIGUSR1);
	report("cpu_ms", to_ms(now(CLOCK_PROCESS_CPUTIME_ID)));
}

static struct itimerval itimer_setting(long ms)
{
	return (struct itimerval){ .it_value = { .tv_sec = ms / MS_PER_S,
						 .tv_usec = ms % MS_PER_S * US_PER_MS } };
}

static double timeval_ms(struct timeval t)
{
	return (double)t.tv_sec * MS_PER_S + (double)t.tv_usec / US_PER_MS;
}

static void setitimer_real(long ms)
{
	block(SIGALRM);
	begin();
	struct itimerval setting = itimer_setting(20 * ms), old, left;
	setting.it_interval.tv_sec = 5;
	must(syscall(SYS_setitimer, ITIMER_REAL, &setting, NULL) == 0, "setitimer");
	setting = itimer_setting(ms);
	must(syscall(SYS_setitimer, ITIMER_REAL, &setting, &old) == 0, "setitimer");
	must(syscall(SYS_getitimer, ITIMER_REAL, &left) == 0, "getitimer");
	report("left_ms", timeval_ms(left.it_value));
	end(wait_for(SIGALRM));
	report("old_ms", timeval_ms(old.it_value));
	report("old_interval_s", (double)old.it_interval.tv_sec + old.it_interval.tv_usec / 1e6);
}

/* The clocks of a process that the kernel counts in ticks, charged to whatever runs at the tick; on a
 * busy machine they differ greatly from the process's use, which CLOCK_PROCESS_CPUTIME_ID shows. */
enum { TICKS_IN_ALL = 0, TICKS_IN_USER_MODE = 1 };

static clockid_t clock_of_ticks(int which)
{
	int kind = which == ITIMER_VIRTUAL ? TICKS_IN_USER_MODE : TICKS_IN_ALL;
	return (clockid_t)(~(unsigned)getpid() << 3 | (unsigned)kind);
}

static void setitimer_cpu(int which, int signal, long ms)
{
	clockid_t ticks = clock_of_ticks(which);
	block(signal);
	begin();
	struct timespec start = now(ticks);
	struct itimerval setting = itimer_setting(ms);
	must(syscall(SYS_setitimer, which, &setting, NULL) == 0, "setitimer");
	/* Mostly in user mode, since ITIMER_VIRTUAL counts only that. */
	sigset_t pending;
	do {
		for (volatile int i = 0; i < 100000; i++)
			;
		sigpending(&pending);
	} while (!sigismember(&pending, signal));
	struct timespec stop = now(ticks);
	end(signal);
	report("cpu_ms", ms_between(start, stop));
}

static void setitimer_virtual(long ms) { setitimer_cpu(ITIMER_VIRTUAL, SIGVTALRM, ms); }
static void setitimer_prof(long ms) { setitimer_cpu(ITIMER_PROF, SIGPROF, ms); }

static void alarm_(long ms)
{
	block(SIGALRM);
	begin();
	syscall(SYS_alarm, 5000);
	long remainder = syscall(SYS_alarm, (unsigned)(ms / MS_PER_S));
	end(wait_for(SIGALRM));
	say("remainder_s=%ld", remainder);
}

static int notified;

static void notify(union sigval unused)
{
	(void)unused;
	must(write(notified, "n", 1) == 1, "write");
}

static void libc_timer_thread(long ms)
{
	struct pipe_ends ends = new_pipe();
	notified = ends.write;
	struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify };
	timer_t timer;
	must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
	begin();
	struct itimerspec setting = { .it_value = from_ms(ms) };
	must(timer_settime(timer, 0, &setting, NULL) == 0, "timer_settime");
	char byte;
	end(read(ends.read, &byte, 1));
}

const struct wait timers[] = {
	{ "timer_realtime", NULL, timer_realtime },
	{ "timer_realtime_abs", NULL, timer_realtime_abs },
	{ "timer_monotonic", NULL, timer_monotonic },
	{ "timer_monotonic_abs", NULL, timer_monotonic_abs },
	{ "timer_boottime", NULL, timer_boottime },
	{ "timer_boottime_abs", NULL, timer_boottime_abs },
	{ "timer_tai", NULL, timer_tai },
	{ "timer_tai_abs", NULL, timer_tai_abs },
	{ "timer_interval", NULL, timer_interval },
	{ "timer_at_stack_end", NULL, timer_at_stack_end },
	{ "timer_cputime", NULL, timer_cputime },
	{ "libc_timer_thread", NULL, libc_timer_thread },
	{ "setitimer_real", NULL, setitimer_real },
	{ "setitimer_virtual", NULL, setitimer_virtual },
	{ "setitimer_prof", NULL, setitimer_prof },
	{ "alarm", NULL, alarm_ },
	{ NULL, NULL, NULL },
};
