/* Puts itself into a sandbox, as browsers, services and careful programs do.
 *
 *     sandbox strict CALL         the strict mode of seccomp, then a call
 *     sandbox kill|errno|trap CALL  a filter that allows only what the wait needs, then the
 *                                 wait, of three seconds: `begin`, `end`, `passed=MS`
 *     sandbox refused             a filter that refuses calls in the timeline's table, in each way:
 *                                 `errno=`, `trapped=`, `at_the_call=`
 *     sandbox exec PROGRAM ARG... a filter that allows what a static program needs, then that program
 *     sandbox without CALL PROGRAM ARG... a filter that refuses this call, then that program
 */
#include "common.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <ucontext.h>

#define WAIT_MS 3000L

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define ANSWER(answer) BPF_STMT(BPF_RET | BPF_K, answer)

/* Returns `listed` for the calls in the list, and `others` for all others. */
static void install(const long *calls, size_t count, unsigned listed, unsigned others)
{
	struct sock_filter code[2 * 64 + 8];
	size_t length = 0;
	must(2 * count + 5 <= sizeof code / sizeof *code, "the list is short");
	code[length++] = (struct sock_filter)LOAD(arch);
	code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	code[length++] = (struct sock_filter)ANSWER(SECCOMP_RET_KILL_PROCESS);
	code[length++] = (struct sock_filter)LOAD(nr);
	for (size_t i = 0; i < count; i++) {
		code[length++] = (struct sock_filter)UNLESS((unsigned)calls[i], 1);
		code[length++] = (struct sock_filter)ANSWER(listed);
	}
	code[length++] = (struct sock_filter)ANSWER(others);
	struct sock_fprog filter = { .len = length, .filter = code };
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
	must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0, "seccomp");
}

static volatile int trapped, trapped_call, trapped_at_call;
static long call_address;

static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	ucontext_t *thread = context;
	trapped++;
	trapped_call = info->si_syscall;
	/* Such a handler answers the call instead of the kernel. */
	trapped_at_call = (long)info->si_call_addr == thread->uc_mcontext.gregs[REG_RIP];
	call_address = (long)info->si_call_addr;
	thread->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

/* --- Waits --------------------------------------------------------------- */

static int epoll, timer;
static uint32_t word;
static const struct timespec span = { .tv_sec = WAIT_MS / MS_PER_S };

static long by_nanosleep(void) { return syscall(SYS_nanosleep, &span, NULL); }
static long by_clock_nanosleep(void)
{
	return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &span, NULL);
}
static long by_poll(void) { return syscall(SYS_poll, NULL, 0, WAIT_MS); }
static long by_ppoll(void)
{
	struct timespec left = span;
	return syscall(SYS_ppoll, NULL, 0, &left, NULL, 0);
}
static long by_select(void)
{
	struct timeval left = { .tv_sec = WAIT_MS / MS_PER_S };
	return syscall(SYS_select, 0, NULL, NULL, NULL, &left);
}
static long by_pselect6(void)
{
	struct timespec left = span;
	return syscall(SYS_pselect6, 0, NULL, NULL, NULL, &left, NULL);
}
static long by_epoll_wait(void)
{
	struct epoll_event event;
	return syscall(SYS_epoll_wait, epoll, &event, 1, WAIT_MS);
}
static long by_epoll_pwait(void)
{
	struct epoll_event event;
	return syscall(SYS_epoll_pwait, epoll, &event, 1, WAIT_MS, NULL, KERNEL_SIGSET_BYTES);
}
static long by_futex(void)
{
	long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &span, NULL, 0);
	return result < 0 && errno == ETIMEDOUT ? 0 : -1;
}
static long by_rt_sigtimedwait(void)
{
	uint64_t set = 1UL << (SIGUSR1 - 1);
	long result = syscall(SYS_rt_sigtimedwait, &set, NULL, &span, KERNEL_SIGSET_BYTES);
	return result < 0 && errno == EAGAIN ? 0 : -1;
}
static long by_timerfd(void)
{
	struct itimerspec value = { .it_value = span };
	uint64_t count;
	return syscall(SYS_timerfd_settime, timer, 0, &value, NULL) == 0 &&
			       read(timer, &count, sizeof count) == sizeof count && count == 1 ?
		       0 :
		       -1;
}
static volatile sig_atomic_t rang;
static void on_alarm(int signal)
{
	(void)signal;
	rang = 1;
}
static long by_alarm(void)
{
	syscall(SYS_alarm, WAIT_MS / MS_PER_S);
	while (!rang)
		syscall(SYS_pause);
	return 0;
}

static const struct wait {
	const char *name;
	long (*wait)(void);
	long calls[2];
} WAITS[] = {
	{ "nanosleep", by_nanosleep, { SYS_nanosleep, -1 } },
	{ "clock_nanosleep", by_clock_nanosleep, { SYS_clock_nanosleep, -1 } },
	{ "poll", by_poll, { SYS_poll, -1 } },
	{ "ppoll", by_ppoll, { SYS_ppoll, -1 } },
	{ "select", by_select, { SYS_select, -1 } },
	{ "pselect6", by_pselect6, { SYS_pselect6, -1 } },
	{ "epoll_wait", by_epoll_wait, { SYS_epoll_wait, -1 } },
	{ "epoll_pwait", by_epoll_pwait, { SYS_epoll_pwait, -1 } },
	{ "futex", by_futex, { SYS_futex, -1 } },
	{ "rt_sigtimedwait", by_rt_sigtimedwait, { SYS_rt_sigtimedwait, -1 } },
	{ "timerfd", by_timerfd, { SYS_timerfd_settime, SYS_read } },
	{ "alarm", by_alarm, { SYS_alarm, SYS_pause } },
};

static int wait_in_sandbox(unsigned others, const char *name)
{
	const struct wait *wait = NULL;
	for (size_t i = 0; i < sizeof WAITS / sizeof *WAITS; i++)
		if (strcmp(WAITS[i].name, name) == 0)
			wait = &WAITS[i];
	must(wait != NULL, "a wait");
	must((epoll = epoll_create1(0)) >= 0, "epoll_create1");
	must((timer = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0, "timerfd_create");
	struct sigaction action = { .sa_handler = on_alarm };
	must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
	sigset_t blocked;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	must(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0, "sigprocmask");
	struct sigaction trap = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER };
	must(sigaction(SIGSYS, &trap, NULL) == 0, "sigaction");
	const long allowed[] = { SYS_write, SYS_exit_group, SYS_rt_sigreturn, SYS_restart_syscall,
				 wait->calls[0], wait->calls[1] };
	install(allowed, sizeof allowed / sizeof *allowed, SECCOMP_RET_ALLOW, others);
	struct timespec before = now(CLOCK_MONOTONIC);
	say("begin");
	long result = wait->wait();
	int error = errno;
	say("end");
	say("passed=%f", ms_between(before, now(CLOCK_MONOTONIC)));
	say("trapped=%d", trapped);
	if (result != 0)
		say("error=%d", error);
	return result != 0;
}

/* --- Calls that are refused ---------------------------------------------- */

/* The address after its call, as the kernel reports it to a handler. */
static long call_here(long nr, long *after)
{
	long result;
	struct timespec t = { .tv_nsec = NS_PER_MS };
	register long fourth __asm__("r10") = 0;
	__asm__ volatile("syscall\n\t1: lea 1b(%%rip), %%rcx"
			 : "=a"(result), "=c"(*after)
			 : "0"(nr), "D"(&t), "S"(0L), "d"(0L), "r"(fourth)
			 : "r11", "memory");
	return result;
}

static int refused(void)
{
	struct sigaction trap = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	must(sigaction(SIGSYS, &trap, NULL) == 0, "sigaction");
	const long traps[] = { SYS_nanosleep };
	const long fails[] = { SYS_clock_nanosleep, SYS_poll };
	install(traps, 1, SECCOMP_RET_TRAP, SECCOMP_RET_ALLOW);
	install(fails, 2, SECCOMP_RET_ERRNO | EXDEV, SECCOMP_RET_ALLOW);
	long after;
	long result = call_here(SYS_nanosleep, &after);
	say("result=%ld", result);
	say("trapped=%d", trapped);
	say("call=%d", trapped_call == SYS_nanosleep);
	say("at_the_call=%d", trapped_at_call && call_address == after);
	say("errno=%d", by_poll() < 0 ? errno : 0);
	return 0;
}

/* --- The strict mode ------------------------------------------------------ */

static void *idle_thread(void *unused)
{
	(void)unused;
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "PR_SET_SECCOMP");
	syscall(SYS_getpid);
	say("alive");
	return NULL;
}

/* Like `say`, without the library's own calls. */
static void tell(const char *line)
{
	must(write(STDOUT_FILENO, line, strlen(line)) == (ssize_t)strlen(line), "write");
}

static void on_user_signal(int signal)
{
	(void)signal;
	tell("handled\n");
}

static int strict(const char *call)
{
	struct sigaction action = { .sa_handler = on_user_signal };
	must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
	/* The mode forbids the counter, and with it the fine clocks, on the host. */
	now(CLOCK_REALTIME_COARSE);
	if (strcmp(call, "refused") == 0) {
		must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
		install(NULL, 0, 0, SECCOMP_RET_ALLOW);
		long result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		say("result=%ld errno=%d", result, result ? errno : 0);
		return 0;
	}
	if (strcmp(call, "thread") == 0) {
		pthread_t thread;
		must(pthread_create(&thread, NULL, idle_thread, NULL) == 0, "pthread_create");
		sleep_ms(200);
		tell("others go on\n");
		return 0;
	}
	if (strcmp(call, "signal") == 0) {
		struct itimerval soon = { .it_value.tv_usec = 50 * US_PER_MS };
		must(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
	}
	if (strcmp(call, "seccomp") == 0)
		must(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) == 0, "seccomp");
	else
		must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "PR_SET_SECCOMP");
	char line[64];
	snprintf(line, sizeof line, "time=%ld\n", (long)now(CLOCK_REALTIME_COARSE).tv_sec);
	tell(line);
	if (strcmp(call, "read") == 0) {
		char byte;
		tell(read(STDIN_FILENO, &byte, 1) == 0 ? "read\n" : "not read\n");
		syscall(SYS_exit, 7);
	}
	if (strcmp(call, "signal") == 0) {
		struct timespec begin = now(CLOCK_MONOTONIC_COARSE);
		while (ms_between(begin, now(CLOCK_MONOTONIC_COARSE)) < 200)
			;
		syscall(SYS_exit, 7);
	}
	if (strcmp(call, "nanosleep") == 0)
		by_nanosleep();
	else if (strcmp(call, "clock_gettime") == 0)
		syscall(SYS_clock_gettime, CLOCK_REALTIME, line);
	else
		syscall(SYS_getpid);
	tell("alive\n");
	syscall(SYS_exit, 0);
	return 0;
}

/* --- Programs started in a sandbox ---------------------------------------- */

static int start(char **command)
{
	const long needed[] = {
		SYS_execve,	     SYS_write,	      SYS_exit_group,	 SYS_brk,
		SYS_arch_prctl,	     SYS_set_tid_address, SYS_set_robust_list, SYS_rseq,
		SYS_prlimit64,	     SYS_readlink,    SYS_readlinkat,	 SYS_getrandom,
		SYS_mprotect,	     SYS_fstat,	      SYS_newfstatat,	 SYS_clock_nanosleep,
	};
	install(needed, sizeof needed / sizeof *needed, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
	execv(command[0], command);
	die("execv");
	return 91;
}

static int start_without(const char *call, char **command)
{
	const long fails[] = {
		strcmp(call, "epoll_pwait2") == 0 ? SYS_epoll_pwait2 : SYS_rt_sigprocmask,
	};
	install(fails, 1, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
	execv(command[0], command);
	die("execv");
	return 91;
}

/* The program that is started there: sleeps, and prints the clock. */
static int sleeper(void)
{
	struct timespec before = now(CLOCK_MONOTONIC);
	say("begin");
	must(by_clock_nanosleep() == 0, "clock_nanosleep");
	say("end");
	say("passed=%f", ms_between(before, now(CLOCK_MONOTONIC)));
	say("time=%ld", (long)now(CLOCK_REALTIME).tv_sec);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned others;
	} SANDBOXES[] = {
		{ "kill", SECCOMP_RET_KILL_PROCESS },
		{ "errno", SECCOMP_RET_ERRNO | EPERM },
		{ "trap", SECCOMP_RET_TRAP },
	};
	must(argc >= 2, "what to do");
	for (size_t i = 0; i < sizeof SANDBOXES / sizeof *SANDBOXES; i++)
		if (strcmp(argv[1], SANDBOXES[i].name) == 0 && argc == 3)
			return wait_in_sandbox(SANDBOXES[i].others, argv[2]);
	if (strcmp(argv[1], "strict") == 0 && argc == 3)
		return strict(argv[2]);
	if (strcmp(argv[1], "refused") == 0)
		return refused();
	if (strcmp(argv[1], "exec") == 0 && argc >= 3)
		return start(argv + 2);
	if (strcmp(argv[1], "without") == 0 && argc >= 4)
		return start_without(argv[2], argv + 3);
	if (strcmp(argv[1], "sleeper") == 0)
		return sleeper();
	die("no such thing to do");
}
