/* Signals in quick succession, with all their data, while the program is moved.
 *
 *   storm PERIOD_US
 *
 * SIGALRM comes from an interval timer and SIGRTMIN from a POSIX timer with a value,
 * both every PERIOD_US; SIGRTMIN+1 is queued to one thread by another, with consecutive
 * values. Handlers read the clocks. Other threads sleep, and sleep again for the
 * remaining time when they are interrupted. For every line on standard input it prints:
 *
 *   alarms, ticks, queued    how often each signal came
 *   foreign                  signals without the data they were sent with
 *   lost                     queued signals that are missing
 *   back                     backward steps of CLOCK_MONOTONIC within one thread's handlers
 *   short                    sleeps that ended too early on CLOCK_MONOTONIC
 *   failed                   other calls that failed
 *
 * and `done`. */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/time.h>

enum { SLEEPERS = 3, SLEEP_MS = 5 };

static _Atomic long alarms, ticks, queued, foreign, lost, back, short_sleeps, failed;
static int token;
static pthread_t receiver;
static __thread struct timespec last;

static void look(void)
{
	struct timespec next;
	int error = errno;
	if (clock_gettime(CLOCK_MONOTONIC, &next) != 0 ||
	    clock_gettime(CLOCK_REALTIME, &(struct timespec){ 0 }) != 0)
		failed++;
	else if (ms_between(last, next) < 0)
		back++;
	last = next;
	errno = error;
}

static void on_alarm(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	alarms++;
	if (info->si_code != SI_KERNEL)
		foreign++;
	look();
}

static void on_tick(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	ticks++;
	if (info->si_code != SI_TIMER || info->si_value.sival_ptr != &token)
		foreign++;
	look();
}

static void on_queued(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	if (info->si_code != SI_QUEUE)
		foreign++;
	else if (info->si_value.sival_int != queued)
		lost++;
	queued++;
	look();
}

static void *sleep_on(void *unused)
{
	(void)unused;
	for (;;) {
		struct timespec start = now(CLOCK_MONOTONIC), left = from_ms(SLEEP_MS);
		while (nanosleep(&left, &left) != 0)
			if (errno != EINTR)
				failed++;
		if (ms_between(start, now(CLOCK_MONOTONIC)) < SLEEP_MS)
			short_sleeps++;
	}
	return NULL;
}

static void *receive(void *unused)
{
	(void)unused;
	for (;;)
		nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
	return NULL;
}

static void *send(void *period_us)
{
	for (int sent = 0;; sent++) {
		while (pthread_sigqueue(receiver, SIGRTMIN + 1, (union sigval){ .sival_int = sent }))
			usleep(1000);
		usleep(*(useconds_t *)period_us);
	}
	return NULL;
}

static void handle(int signal, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART };
	sigfillset(&action.sa_mask);
	must(sigaction(signal, &action, NULL) == 0, "sigaction");
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: storm PERIOD_US\n");
		return 92;
	}
	useconds_t period_us = (useconds_t)atoi(argv[1]);
	handle(SIGALRM, on_alarm);
	handle(SIGRTMIN, on_tick);
	handle(SIGRTMIN + 1, on_queued);
	pthread_t thread;
	for (int i = 0; i < SLEEPERS; i++)
		must(pthread_create(&thread, NULL, sleep_on, NULL) == 0, "pthread_create");
	must(pthread_create(&receiver, NULL, receive, NULL) == 0, "pthread_create");
	must(pthread_create(&thread, NULL, send, &period_us) == 0, "pthread_create");

	struct timeval period = { .tv_usec = period_us };
	must(setitimer(ITIMER_REAL, &(struct itimerval){ period, period }, NULL) == 0, "setitimer");
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGRTMIN,
				  .sigev_value.sival_ptr = &token };
	timer_t timer;
	must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
	struct timespec span = { .tv_nsec = (long)period_us * 1000 };
	must(timer_settime(timer, 0, &(struct itimerspec){ span, span }, NULL) == 0, "timer_settime");

	say("ready");
	char line[32];
	while (fgets(line, sizeof line, stdin)) {
		say("alarms=%ld", alarms);
		say("ticks=%ld", ticks);
		say("queued=%ld", queued);
		say("foreign=%ld", foreign);
		say("lost=%ld", lost);
		say("back=%ld", back);
		say("short=%ld", short_sleeps);
		say("failed=%ld", failed);
		say("done");
	}
	return 0;
}
