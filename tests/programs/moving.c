// Threads and a child that wait in many ways for eight seconds on their own clocks, and threads that read
// the clocks all the time. Each prints when its wait has ended, and how late it was.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SPAN 8

static double now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static struct timespec at(double due)
{
	struct timespec time = { (time_t)due, (long)((due - (time_t)due) * 1e9) };

	return time;
}

// Writes a whole line at once: signal handlers call it, which may run in the middle of another line.
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	char line[128];
	va_list words;

	va_start(words, format);
	int length = vsnprintf(line, sizeof line, format, words);
	va_end(words);
	if (write(STDOUT_FILENO, line, length) != length)
		_exit(1);
}

static void tell(const char *name, double due, clockid_t clock)
{
	double read = now(clock);

	say("%s due %.6f late %.6f\n", name, due, read - due);
}

static void *reads(void *unused)
{
	double monotonic = 0, wall = 0;

	for (;;) {
		double read = now(CLOCK_MONOTONIC);

		if (read < monotonic)
			say("BACK monotonic %.6f %.6f\n", monotonic, read);
		monotonic = read;
		read = now(CLOCK_REALTIME);
		if (read < wall)
			say("BACK wall %.6f %.6f\n", wall, read);
		wall = read;
		usleep(10);
	}
	return unused;
}

static void *sleeps_until(void *name)
{
	double due = now(CLOCK_MONOTONIC) + SPAN;
	struct timespec time = at(due);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL))
		;
	tell(name, due, CLOCK_MONOTONIC);
	return NULL;
}

static void *sleeps_for(void *name)
{
	double due = now(CLOCK_MONOTONIC) + SPAN;
	struct timespec time = { SPAN, 0 };

	nanosleep(&time, NULL);
	tell(name, due, CLOCK_MONOTONIC);
	return NULL;
}

static void *polls(void *name)
{
	double due = now(CLOCK_MONOTONIC) + SPAN;

	poll(NULL, 0, SPAN * 1000);
	tell(name, due, CLOCK_MONOTONIC);
	return NULL;
}

static void *waits_for_condition(void *name)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	double due = now(CLOCK_REALTIME) + SPAN;
	struct timespec time = at(due);

	pthread_mutex_lock(&mutex);
	while (!pthread_cond_timedwait(&condition, &mutex, &time))
		;
	tell(name, due, CLOCK_REALTIME);
	return NULL;
}

static void reads_timer(const char *name, clockid_t clock, int absolute)
{
	int timer = timerfd_create(clock, 0);
	double due = now(clock) + SPAN;
	struct itimerspec setting = { .it_value = { SPAN, 0 } };
	uint64_t count;

	if (absolute)
		setting.it_value = at(due);
	timerfd_settime(timer, absolute ? TFD_TIMER_ABSTIME : 0, &setting, NULL);
	while (read(timer, &count, sizeof(count)) != sizeof(count))
		;
	tell(name, due, clock);
}

static void *wall_timer(void *name)
{
	reads_timer(name, CLOCK_REALTIME, 1);
	return NULL;
}

static void *monotonic_timer(void *name)
{
	reads_timer(name, CLOCK_MONOTONIC, 1);
	return NULL;
}

static void *span_timer(void *name)
{
	reads_timer(name, CLOCK_MONOTONIC, 0);
	return NULL;
}

static double posix_due, interval_due;

static void expired(int signal)
{
	if (signal == SIGALRM)
		tell("itimer", interval_due, CLOCK_MONOTONIC);
	else
		tell("posix", posix_due, CLOCK_MONOTONIC);
}

// No thread should notice that it was stopped and continued.
static void stopped(int signal)
{
	say("SIGNAL %d\n", signal);
}

int main(void)
{
	struct { void *(*run)(void *); char *name; } threads[] = {
		{ reads, "" }, { reads, "" },
		{ sleeps_until, "abs-sleep" }, { sleeps_for, "rel-sleep" }, { polls, "poll" },
		{ waits_for_condition, "cond-wall" }, { wall_timer, "tfd-wall-abs" },
		{ monotonic_timer, "tfd-mono-abs" }, { span_timer, "tfd-rel" },
	};
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec setting = { .it_value = { SPAN, 0 } };
	sigset_t all, old;
	pthread_t thread;
	timer_t timer;

	signal(SIGALRM, expired);
	signal(SIGUSR1, expired);
	signal(SIGCONT, stopped);
	if (!fork()) {
		sleeps_until("child-sleep");
		for (;;)
			pause();
	}
	signal(SIGCHLD, stopped);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	for (size_t i = 0; i < sizeof(threads) / sizeof(*threads); i++)
		pthread_create(&thread, NULL, threads[i].run, threads[i].name);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	posix_due = now(CLOCK_MONOTONIC) + SPAN;
	timer_settime(timer, 0, &setting, NULL);
	interval_due = now(CLOCK_MONOTONIC) + SPAN;
	alarm(SPAN);
	say("waits\n");
	for (;;)
		pause();
}
