/* Signals that arrive during a wait. `signals WHAT MS` prints key=value lines; MS is
 * the length of the wait that is interrupted, stopped or left. */
#include "common.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>

extern char **environ;

static void on_signal(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	must(sigaction(signal, &action, NULL) == 0, "sigaction");
}

static void do_nothing(int signal)
{
	(void)signal;
}

/* When a child sent its signals, in shared memory. */
static struct timespec *sent;

/* Starts a child that, `after` ms from now, sends `first`; and if `pause` is not
 * zero, sends SIGCONT that much later. */
static pid_t signal_me_later(long after, int first, long pause)
{
	pid_t me = getpid(), child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		sleep_ms(after);
		await_sleep(me);
		sent[0] = now(CLOCK_MONOTONIC);
		kill(me, first);
		if (pause) {
			sleep_ms(pause);
			sent[1] = now(CLOCK_MONOTONIC);
			kill(me, SIGCONT);
		}
		_exit(0);
	}
	return child;
}

static void reap(pid_t child)
{
	while (waitpid(child, NULL, 0) < 0)
		must(errno == EINTR, "waitpid");
}

/* The waits that a signal interrupts. Each returns its system call's result. */
static int quiet_pipe[2];

static long wait_nanosleep(long ms)
{
	struct timespec request = from_ms(ms);
	return syscall(SYS_nanosleep, &request, NULL);
}
static long wait_clock_nanosleep(long ms)
{
	struct timespec request = from_ms(ms);
	return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &request, NULL);
}
static long wait_clock_nanosleep_abs(long ms)
{
	struct timespec until = plus_ms(now(CLOCK_REALTIME), ms);
	return syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
}
static long wait_poll(long ms)
{
	struct pollfd fd = { .fd = quiet_pipe[0], .events = POLLIN };
	return syscall(SYS_poll, &fd, 1, (int)ms);
}
static long wait_ppoll(long ms)
{
	struct pollfd fd = { .fd = quiet_pipe[0], .events = POLLIN };
	struct timespec timeout = from_ms(ms);
	return syscall(SYS_ppoll, &fd, 1, &timeout, NULL, 0);
}
static long wait_select(long ms)
{
	struct timeval timeout = { .tv_sec = ms / MS_PER_S, .tv_usec = ms % MS_PER_S * US_PER_MS };
	fd_set set;
	FD_ZERO(&set);
	FD_SET(quiet_pipe[0], &set);
	return syscall(SYS_select, quiet_pipe[0] + 1, &set, NULL, NULL, &timeout);
}
static long wait_pselect6(long ms)
{
	struct timespec timeout = from_ms(ms);
	return syscall(SYS_pselect6, 0, NULL, NULL, NULL, &timeout, NULL);
}
static long wait_epoll(long ms)
{
	struct epoll_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	return syscall(SYS_epoll_wait, epoll, &event, 1, (int)ms);
}
static long wait_futex(long ms)
{
	uint32_t word = 0;
	struct timespec timeout = from_ms(ms);
	return syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, &timeout, NULL, 0);
}
static long wait_futex_bitset(long ms)
{
	uint32_t word = 0;
	struct timespec until = plus_ms(now(CLOCK_MONOTONIC), ms);
	return syscall(SYS_futex, &word, 9 /* FUTEX_WAIT_BITSET */, 0, &until, NULL, ~0U);
}
/* Blocks the signal itself, so that none ends it. */
static long wait_ppoll_masked(long ms)
{
	struct pollfd fd = { .fd = quiet_pipe[0], .events = POLLIN };
	struct timespec timeout = from_ms(ms);
	uint64_t mask = 1UL << (SIGUSR1 - 1);
	return syscall(SYS_ppoll, &fd, 1, &timeout, &mask, KERNEL_SIGSET_BYTES);
}
static long wait_sigtimedwait(long ms)
{
	uint64_t wanted = 1UL << (SIGUSR2 - 1);
	struct timespec timeout = from_ms(ms);
	return syscall(SYS_rt_sigtimedwait, &wanted, NULL, &timeout, KERNEL_SIGSET_BYTES);
}

static const struct {
	const char *name;
	long (*wait)(long ms);
} waits[] = {
	{ "nanosleep", wait_nanosleep },
	{ "clock_nanosleep", wait_clock_nanosleep },
	{ "clock_nanosleep_abs", wait_clock_nanosleep_abs },
	{ "poll", wait_poll },
	{ "ppoll", wait_ppoll },
	{ "ppoll_masked", wait_ppoll_masked },
	{ "select", wait_select },
	{ "pselect6", wait_pselect6 },
	{ "epoll_wait", wait_epoll },
	{ "futex", wait_futex },
	{ "futex_bitset", wait_futex_bitset },
	{ "rt_sigtimedwait", wait_sigtimedwait },
};
enum { WAITS = sizeof waits / sizeof *waits };

static long (*find_wait(const char *name))(long)
{
	int i = 0;
	while (i < WAITS && strcmp(waits[i].name, name) != 0)
		i++;
	must(i < WAITS, name);
	return waits[i].wait;
}

static void report(const char *key, double ms)
{
	say("%s=%.6f", key, ms);
}

/* When the wait that is reported began. */
static struct timespec begun;

static void report_wait(long (*wait)(long), long ms)
{
	begun = now(CLOCK_MONOTONIC);
	long result = wait(ms);
	int error = result == -1 ? errno : 0;
	report("mono_ms", ms_between(begun, now(CLOCK_MONOTONIC)));
	say("ret=%ld", result);
	say("errno=%d", error);
}

/* A signal after a third of the sleep; the remaining time is written back. */
static void interrupted_sleep(long ms)
{
	on_signal(SIGUSR1, do_nothing, SA_RESTART);
	struct timespec request = from_ms(ms), left = { 0, 0 };
	pid_t child = signal_me_later(ms / 3, SIGUSR1, 0);
	struct timespec start = now(CLOCK_MONOTONIC);
	long result = syscall(SYS_nanosleep, &request, &left);
	int error = result == -1 ? errno : 0;
	report("mono_ms", ms_between(start, now(CLOCK_MONOTONIC)));
	report("remain_ms", to_ms(left));
	say("ret=%ld", result);
	say("errno=%d", error);
	reap(child);
	report("signal_ms", ms_between(start, sent[0]));
}

/* Arrives at the thread as soon as the handler has returned. */
static void send_ignored(int signal)
{
	(void)signal;
	raise(SIGWINCH);
}

/* The wait is long enough for the signal to arrive within it, even on a busy machine. */
static void interrupted(const char *name, long ms)
{
	enum { LONGER = 100 };
	struct sigaction action = { .sa_handler = send_ignored };
	sigfillset(&action.sa_mask);
	must(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
	pid_t child = signal_me_later(ms / 3, SIGUSR1, 0);
	report_wait(find_wait(name), LONGER * ms);
	reap(child);
	report("signal_ms", ms_between(begun, sent[0]));
}

/* A wait during which an ignored signal arrives, and which the kernel restarts in its own way; then
 * one that a handler ends. */
static void after_ignored(long ms)
{
	on_signal(SIGUSR1, do_nothing, SA_RESTART);
	pid_t ignored = signal_me_later(ms / 4, SIGWINCH, 0);
	pid_t handled = signal_me_later(ms * 3 / 4, SIGUSR1, 0);
	uint32_t word = 0;
	struct {
		uint64_t value, address;
		uint32_t flags, reserved;
	} waiter = { 0, (uint64_t)(uintptr_t)&word, 2 /* FUTEX2_SIZE_U32 */, 0 };
	struct timespec until = plus_ms(now(CLOCK_MONOTONIC), ms / 2);
	enum { FUTEX_WAITV = 449 };
	say("first=%ld", syscall(FUTEX_WAITV, &waiter, 1, 0, &until, CLOCK_MONOTONIC));
	say("first_errno=%d", errno);
	report_wait(wait_poll, ms);
	reap(ignored);
	reap(handled);
}

/* Stopped from a quarter to three quarters of the wait. */
static void stopped(const char *name, long ms)
{
	pid_t child = signal_me_later(ms / 4, SIGSTOP, ms / 2);
	report_wait(find_wait(name), ms);
	reap(child);
	report("signal_ms", ms_between(begun, sent[0]));
	report("continued_ms", ms_between(begun, sent[1]));
}

static void *sleep_with_all_blocked(void *ms)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	report_wait(wait_nanosleep, *(long *)ms);
	return NULL;
}

static void all_signals_blocked(long ms)
{
	pthread_t thread;
	must(pthread_create(&thread, NULL, sleep_with_all_blocked, &ms) == 0, "pthread_create");
	pthread_join(thread, NULL);
}

static sigjmp_buf back;

static void jump_back(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

enum { JUMPS = 10000 };

/* A child sends a signal for each byte it reads, so signals arrive before, during
 * and right at the start of poll(). */
static void jumps(long ms)
{
	int ask[2];
	must(pipe(ask) == 0, "pipe");
	pid_t me = getpid(), child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		char byte;
		close(ask[1]);
		while (read(ask[0], &byte, 1) == 1)
			kill(me, SIGUSR1);
		_exit(0);
	}
	close(ask[0]);
	on_signal(SIGUSR1, jump_back, 0);
	static volatile int done, timeouts;
	while (done < JUMPS) {
		if (sigsetjmp(back, 1)) {
			done++;
			continue;
		}
		must(write(ask[1], "j", 1) == 1, "write");
		if (wait_poll(1000 * 1000) == 0)
			timeouts++;
	}
	close(ask[1]);
	reap(child);
	say("jumps=%d", done);
	say("timeouts=%d", timeouts);
	report_wait(wait_nanosleep, ms);
}

static double handler_ms, handler_poll_ms;
static long in_handler_ms;

static void sleep_in_handler(int signal)
{
	(void)signal;
	struct timespec start = now(CLOCK_MONOTONIC);
	wait_nanosleep(in_handler_ms);
	struct timespec middle = now(CLOCK_MONOTONIC);
	wait_poll(in_handler_ms);
	handler_ms = ms_between(start, middle);
	handler_poll_ms = ms_between(middle, now(CLOCK_MONOTONIC));
}

/* Interrupted at a quarter; the handler sleeps twice another quarter. */
static void handler_sleeps(long ms)
{
	in_handler_ms = ms / 4;
	on_signal(SIGUSR1, sleep_in_handler, 0);
	struct timespec request = from_ms(ms), left = { 0, 0 };
	pid_t child = signal_me_later(ms / 4, SIGUSR1, 0);
	struct timespec start = now(CLOCK_MONOTONIC);
	long result = syscall(SYS_nanosleep, &request, &left);
	int error = result == -1 ? errno : 0;
	report("mono_ms", ms_between(start, now(CLOCK_MONOTONIC)));
	report("remain_ms", to_ms(left));
	report("handler_ms", handler_ms);
	report("handler_poll_ms", handler_poll_ms);
	say("ret=%ld", result);
	say("errno=%d", error);
	reap(child);
}

/* Threads cancelled inside the C library's cancellation points. */
enum { CANCELS_EACH = 20 };
static int ready[2];
static atomic_int cleanups;

static void clean_up(void *unused)
{
	(void)unused;
	atomic_fetch_add(&cleanups, 1);
}

static void unlock(void *mutex)
{
	pthread_mutex_unlock(mutex);
	clean_up(NULL);
}

static void say_ready(void)
{
	must(write(ready[1], "r", 1) == 1, "write");
}

static void *cancel_nanosleep(void *ms)
{
	pthread_cleanup_push(clean_up, NULL);
	say_ready();
	struct timespec request = from_ms(*(long *)ms);
	nanosleep(&request, NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancel_poll(void *ms)
{
	pthread_cleanup_push(clean_up, NULL);
	say_ready();
	poll(NULL, 0, (int)*(long *)ms);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancel_select(void *ms)
{
	pthread_cleanup_push(clean_up, NULL);
	say_ready();
	struct timeval timeout = { .tv_sec = *(long *)ms / MS_PER_S };
	select(0, NULL, NULL, NULL, &timeout);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancel_cond_timedwait(void *ms)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, &mutex);
	say_ready();
	struct timespec until = plus_ms(now(CLOCK_REALTIME), *(long *)ms);
	while (pthread_cond_timedwait(&condition, &mutex, &until) == 0)
		;
	pthread_cleanup_pop(1);
	return NULL;
}

/* MS is how long the waits would last; they are cancelled long before. */
static void cancelled(long ms)
{
	void *(*const bodies[])(void *) = { cancel_nanosleep, cancel_poll, cancel_select,
					    cancel_cond_timedwait };
	enum { BODIES = sizeof bodies / sizeof *bodies };
	must(pipe(ready) == 0, "pipe");
	struct timespec start = now(CLOCK_MONOTONIC);
	int cancelled = 0;
	for (int i = 0; i < BODIES * CANCELS_EACH; i++) {
		pthread_t thread;
		must(pthread_create(&thread, NULL, bodies[i % BODIES], &ms) == 0, "pthread_create");
		char byte;
		must(read(ready[0], &byte, 1) == 1, "read");
		/* Some are cancelled before they block, most while they do. */
		if (i / BODIES > 2)
			sleep_ms(ms / 1000);
		pthread_cancel(thread);
		void *result;
		pthread_join(thread, &result);
		cancelled += result == PTHREAD_CANCELED;
	}
	say("asked=%d", BODIES * CANCELS_EACH);
	say("cancelled=%d", cancelled);
	say("cleanups=%d", cleanups);
	report("mono_ms", ms_between(start, now(CLOCK_MONOTONIC)));
}

/* Threads cancelled at every moment of a call: before it, on its way, in it. */
static void *sleep_or_poll(void *kind)
{
	struct timespec long_time = { .tv_sec = 100000 };
	if (kind)
		nanosleep(&long_time, NULL);
	else
		poll(NULL, 0, 1000000);
	return NULL;
}

static void cancelled_anywhere(long count)
{
	long cancelled = 0;
	srand(1);
	for (long i = 0; i < count; i++) {
		pthread_t thread;
		void *kind = i % 2 ? &thread : NULL;
		must(pthread_create(&thread, NULL, sleep_or_poll, kind) == 0, "pthread_create");
		for (volatile int spin = rand() % 60000; spin > 0; spin--)
			;
		pthread_cancel(thread);
		void *result;
		pthread_join(thread, &result);
		cancelled += result == PTHREAD_CANCELED;
	}
	say("cancelled=%ld", cancelled);
}

enum { SLEEPERS = 64 };

struct sleeper {
	long ms;
	int number;
	double slept_ms;
	long result;
};

static void *sleep_in_thread(void *argument)
{
	struct sleeper *sleeper = argument;
	long (*const kinds[])(long) = { wait_nanosleep, wait_poll, wait_select, wait_futex };
	struct timespec start = now(CLOCK_MONOTONIC);
	sleeper->result = kinds[sleeper->number % 4](sleeper->ms);
	sleeper->slept_ms = ms_between(start, now(CLOCK_MONOTONIC));
	return NULL;
}

static void many_threads(long ms)
{
	static struct sleeper sleepers[SLEEPERS];
	static pthread_t threads[SLEEPERS];
	for (int i = 0; i < SLEEPERS; i++) {
		sleepers[i] = (struct sleeper){ .ms = ms, .number = i };
		must(pthread_create(&threads[i], NULL, sleep_in_thread, &sleepers[i]) == 0,
		     "pthread_create");
	}
	double least = 1e12, most = 0;
	for (int i = 0; i < SLEEPERS; i++) {
		pthread_join(threads[i], NULL);
		least = sleepers[i].slept_ms < least ? sleepers[i].slept_ms : least;
		most = sleepers[i].slept_ms > most ? sleepers[i].slept_ms : most;
	}
	report("least_ms", least);
	report("most_ms", most);
}

/* Whether a program that has just been started blocks any signal. */
static int blocks_any(void)
{
	sigset_t blocked;
	must(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0, "sigprocmask");
	for (int signal = 1; signal < NSIG; signal++)
		if (sigismember(&blocked, signal) == 1)
			return 1;
	return 0;
}

/* Programs that are stopped and continued while they start, each a little later than the one before. */
static void starting(long count)
{
	enum { LATEST = 512, TURNS = 2000 };
	char *arguments[] = { "signals", "blocks_any", "0", NULL };
	long failed = 0;
	for (long i = 0; i < count; i++) {
		pid_t child;
		int status = -1;
		must(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0, "posix_spawn");
		for (volatile long turn = i % LATEST * TURNS; turn > 0; turn--)
			;
		kill(child, SIGSTOP);
		kill(child, SIGCONT);
		if (waitpid(child, &status, 0) == child && status == 0)
			continue;
		say("program %ld ended with status %#x", i, status);
		failed++;
	}
	say("failed=%ld", failed);
}

enum { PIECES = 64, PIECE = 64 * 1024 };

/* Reads what the other thread writes, one piece after each of many sleeps from one site. */
static void *read_slowly(void *argument)
{
	long ms = *(long *)argument;
	static char piece[PIECE];
	for (int i = 0; i < PIECES; i++) {
		sleep_ms(ms / PIECES);
		for (size_t left = PIECE; left > 0;) {
			ssize_t got = read(quiet_pipe[0], piece, left);
			must(got > 0, "read");
			left -= (size_t)got;
		}
	}
	return NULL;
}

/* A write to a full pipe, which would return early if anything interrupted it. */
static void partial_write(long ms)
{
	static char pieces[PIECES * PIECE];
	pthread_t reader;
	must(pthread_create(&reader, NULL, read_slowly, &ms) == 0, "pthread_create");
	say("left=%ld", (long)sizeof pieces - (long)write(quiet_pipe[1], pieces, sizeof pieces));
	_exit(0);
}

static volatile sig_atomic_t alarms;

static void count_alarm(int signal)
{
	(void)signal;
	alarms++;
}

enum { ALARMS = 10 };

static void interval_alarms(long ms)
{
	sigset_t block, wait;
	sigemptyset(&block);
	sigaddset(&block, SIGALRM);
	must(sigprocmask(SIG_BLOCK, &block, &wait) == 0, "sigprocmask");
	on_signal(SIGALRM, count_alarm, 0);
	struct timeval step = { .tv_sec = ms / ALARMS / MS_PER_S,
				.tv_usec = ms / ALARMS % MS_PER_S * US_PER_MS };
	struct itimerval setting = { .it_interval = step, .it_value = step };
	struct timespec start = now(CLOCK_MONOTONIC);
	must(setitimer(ITIMER_REAL, &setting, NULL) == 0, "setitimer");
	while (alarms < ALARMS)
		sigsuspend(&wait);
	report("mono_ms", ms_between(start, now(CLOCK_MONOTONIC)));
	say("alarms=%d", (int)alarms);
}

/* Signals that arrive while a thread is about to wait, after it has checked that none has come: how many
 * of the waits they did not end. As on the host, almost none: from the check to the wait is a few
 * instructions. */
enum { OVERTAKING = 300, LONGEST_SPIN_NS = 1000000 };
static volatile sig_atomic_t has_come;

static void note_come(int signal)
{
	(void)signal;
	has_come = 1;
}

static void overtaken(const char *name, long ms)
{
	sigset_t block, wait;
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	must(sigprocmask(0, NULL, &wait) == 0, "sigprocmask");
	on_signal(SIGUSR1, note_come, 0);
	atomic_int *turn = mmap(NULL, sizeof *turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(turn != MAP_FAILED, "mmap");
	pid_t me = getpid(), child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		for (int i = 1; i <= OVERTAKING; i++) {
			while (atomic_load(turn) < i)
				sched_yield();
			struct timespec from = now(CLOCK_MONOTONIC);
			double spin = (double)LONGEST_SPIN_NS / NS_PER_MS * i / OVERTAKING;
			while (ms_between(from, now(CLOCK_MONOTONIC)) < spin)
				;
			kill(me, SIGUSR1);
		}
		_exit(0);
	}
	long (*wait_for)(long) = find_wait(name);
	int missed = 0, ended = 0;
	for (int i = 1; i <= OVERTAKING; i++) {
		has_come = 0;
		atomic_store(turn, i);
		if (!has_come) {
			long result = wait_for(ms);
			missed += result == 0 && has_come;
			ended += result != 0;
		}
		must(sigprocmask(SIG_BLOCK, &block, NULL) == 0, "sigprocmask");
		while (!has_come)
			sigsuspend(&wait);
		must(sigprocmask(SIG_SETMASK, &wait, NULL) == 0, "sigprocmask");
	}
	reap(child);
	say("missed=%d", missed);
	say("ended=%d", ended);
}

/* Where handlers find a thread that waits all the time: in the program's own code, which is all in its
 * file, or after a call that returned EINTR. C libraries use this to decide what to cancel. */
extern char __executable_start[], etext[];
static _Atomic long handled, elsewhere;

static void look(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info;
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uintptr_t at = (uintptr_t)registers[REG_RIP];
	bool is_own = (uintptr_t)__executable_start <= at && at < (uintptr_t)etext;
	handled++;
	elsewhere += !is_own && registers[REG_RAX] != -EINTR;
}

static long enough;

static void *wait_on(void *unused)
{
	while (handled < enough)
		wait_nanosleep(1000000);
	return unused;
}

/* A thread that was stopped with the others sends as soon as it is continued. */
static void *signal_one(void *thread)
{
	while (handled < enough) {
		must(pthread_kill(*(pthread_t *)thread, SIGUSR1) == 0, "pthread_kill");
		wait_nanosleep(200);
	}
	return NULL;
}

static void looked_at(long count)
{
	pthread_t waiting[SLEEPERS], senders[SLEEPERS];
	struct sigaction action = { .sa_sigaction = look, .sa_flags = SA_SIGINFO };
	must(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
	enough = count;
	for (int i = 0; i < SLEEPERS; i++)
		must(pthread_create(&waiting[i], NULL, wait_on, NULL) == 0 &&
			     pthread_create(&senders[i], NULL, signal_one, &waiting[i]) == 0,
		     "pthread_create");
	for (int i = 0; i < SLEEPERS; i++) {
		must(pthread_join(senders[i], NULL) == 0, "pthread_join");
		/* It may have been about to wait. */
		while (pthread_tryjoin_np(waiting[i], NULL) != 0) {
			pthread_kill(waiting[i], SIGUSR1);
			wait_nanosleep(1);
		}
	}
	say("elsewhere=%ld", elsewhere);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 92;
	const char *what = argv[1];
	long ms = strtol(argv[argc - 1], NULL, 10);
	if (strcmp(what, "blocks_any") == 0)
		return blocks_any();
	must(pipe(quiet_pipe) == 0, "pipe");
	sent = mmap(NULL, 2 * sizeof *sent, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(sent != MAP_FAILED, "mmap");
	say("begin");
	if (strcmp(what, "interrupted_sleep") == 0)
		interrupted_sleep(ms);
	else if (strcmp(what, "interrupted") == 0)
		interrupted(argv[2], ms);
	else if (strcmp(what, "stopped") == 0)
		stopped(argv[2], ms);
	else if (strcmp(what, "after_ignored") == 0)
		after_ignored(ms);
	else if (strcmp(what, "all_blocked") == 0)
		all_signals_blocked(ms);
	else if (strcmp(what, "jumps") == 0)
		jumps(ms);
	else if (strcmp(what, "handler_sleeps") == 0)
		handler_sleeps(ms);
	else if (strcmp(what, "cancelled_anywhere") == 0)
		cancelled_anywhere(ms);
	else if (strcmp(what, "cancelled") == 0)
		cancelled(ms);
	else if (strcmp(what, "many_threads") == 0)
		many_threads(ms);
	else if (strcmp(what, "starting") == 0)
		starting(ms);
	else if (strcmp(what, "partial_write") == 0)
		partial_write(ms);
	else if (strcmp(what, "overtaken") == 0)
		overtaken(argv[2], ms);
	else if (strcmp(what, "looked_at") == 0)
		looked_at(ms);
	else if (strcmp(what, "interval_alarms") == 0)
		interval_alarms(ms);
	else
		return 92;
	say("end");
	return 0;
}
