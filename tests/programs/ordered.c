/* Arms timers that expire within seconds of each other, and prints in which order they expired, by how
 * many seconds before the last each was due.
 *
 *   ordered LAST_S
 *
 * Prints `armed`, then a line for each POSIX timer and each timer descriptor. */
#include "common.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

static const int before_last[] = { 1, 3, 0, 2 };
enum { TIMERS = sizeof before_last / sizeof *before_last };

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: ordered LAST_S\n");
		return 92;
	}
	sigset_t expired;
	sigemptyset(&expired);
	sigaddset(&expired, SIGRTMIN);
	must(sigprocmask(SIG_BLOCK, &expired, NULL) == 0, "sigprocmask");
	int epoll = epoll_create1(0), descriptors[TIMERS];
	must(epoll != -1, "epoll_create1");
	struct timespec start = now(CLOCK_MONOTONIC);
	for (int i = 0; i < TIMERS; i++) {
		struct itimerspec due = { .it_value = start };
		due.it_value.tv_sec += atol(argv[1]) - before_last[i];
		struct sigevent tells = { .sigev_notify = SIGEV_SIGNAL,
					  .sigev_signo = SIGRTMIN,
					  .sigev_value.sival_int = before_last[i] };
		timer_t timer;
		must(timer_create(CLOCK_MONOTONIC, &tells, &timer) == 0, "timer_create");
		must(timer_settime(timer, TIMER_ABSTIME, &due, NULL) == 0, "timer_settime");
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = (uint32_t)i };
		descriptors[i] = timerfd_create(CLOCK_MONOTONIC, 0);
		must(descriptors[i] != -1, "timerfd_create");
		must(timerfd_settime(descriptors[i], TFD_TIMER_ABSTIME, &due, NULL) == 0, "timerfd_settime");
		must(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptors[i], &event) == 0, "epoll_ctl");
	}
	say("armed");
	for (int i = 0; i < TIMERS; i++) {
		siginfo_t told;
		must(sigwaitinfo(&expired, &told) == SIGRTMIN, "sigwaitinfo");
		say("posix %d", told.si_value.sival_int);
	}
	for (int i = 0; i < TIMERS; i++) {
		struct epoll_event event;
		uint64_t expirations;
		must(epoll_wait(epoll, &event, 1, -1) == 1, "epoll_wait");
		must(read(descriptors[event.data.u32], &expirations, sizeof expirations) == sizeof expirations,
		     "read");
		say("descriptor %d", before_last[event.data.u32]);
	}
	return 0;
}
