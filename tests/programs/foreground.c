/* A program in the foreground of a terminal: waits forever, in calls with
 * a timeout, and prints when it was continued or its terminal resized. */
#include "common.h"

#include <poll.h>
#include <sys/ioctl.h>

static volatile sig_atomic_t latest;

static void note(int signal)
{
	latest = signal;
}

int main(void)
{
	struct sigaction action = { .sa_handler = note };
	must(sigaction(SIGCONT, &action, NULL) == 0, "sigaction");
	must(sigaction(SIGWINCH, &action, NULL) == 0, "sigaction");
	sigset_t both, before;
	sigemptyset(&both);
	sigaddset(&both, SIGCONT);
	sigaddset(&both, SIGWINCH);
	must(sigprocmask(SIG_BLOCK, &both, &before) == 0, "sigprocmask");
	say("ready");
	for (;;) {
		struct timespec long_time = { 100 * 1000 * 1000, 0 };
		must(ppoll(NULL, 0, &long_time, &before) == -1 && errno == EINTR, "ppoll");
		if (latest == SIGCONT)
			say("going on");
		struct winsize size;
		must(ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0, "TIOCGWINSZ");
		if (latest == SIGWINCH)
			say("%d rows, %d columns", size.ws_row, size.ws_col);
		latest = 0;
	}
}
