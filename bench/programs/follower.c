/* Traces a program and everything it starts, and does nothing else: the minimum cost of a tracer.
 *
 *   follower COMMAND [ARG...]
 *
 * It stops at each start and end of a process, thread or program, and at each signal. Its exit
 * status is the command's.  */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	CANNOT = 125,
	FOLLOW = PTRACE_O_EXITKILL | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
		 PTRACE_O_TRACEEXEC,
};

static void must(int right, const char *what)
{
	if (!right) {
		perror(what);
		exit(CANNOT);
	}
}

/* Resumes a thread after this stop, unless it has been killed meanwhile. */
static void go_on(pid_t thread, int status)
{
	int event = status >> 16, signal = WSTOPSIG(status);
	int stays = event == PTRACE_EVENT_STOP && signal != SIGTRAP;
	ptrace(stays ? PTRACE_LISTEN : PTRACE_CONT, thread, NULL, event ? 0L : (long)signal);
}

int main(int argc, char **argv)
{
	int begin[2], status, ended = 0;
	char go;
	must(argc > 1 && pipe(begin) == 0, "follower: pipe");
	pid_t child = fork(), thread;
	must(child >= 0, "follower: fork");
	if (child == 0) {
		close(begin[1]);
		must(read(begin[0], &go, 1) == 0, "follower: read");
		close(begin[0]);
		execvp(argv[1], argv + 1);
		must(0, argv[1]);
	}
	must(ptrace(PTRACE_SEIZE, child, NULL, (long)FOLLOW) == 0, "follower: PTRACE_SEIZE");
	close(begin[0]);
	close(begin[1]);
	while ((thread = waitpid(-1, &status, __WALL)) > 0) {
		if (WIFSTOPPED(status))
			go_on(thread, status);
		else if (thread == child)
			ended = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
	must(errno == ECHILD, "follower: waitpid");
	return ended;
}
