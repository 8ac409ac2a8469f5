/* Many processes that sleep, started by one program.
 *
 *   crowd COUNT
 *
 * It prints "begin", and for each line on standard input it goes on:
 *
 *   started <tab> ticks   COUNT processes are about to sleep (ticks since before the
 *                         first posix_spawn)
 *   ended <tab> ticks     all of them have ended and were waited for (ticks since they
 *                         were told to end)
 *
 * A process sleeps in poll, with a timeout of a day, until the other end of a pipe is
 * closed, so that none outlives this program.  */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ticks.h"

extern char **environ;

enum { DAY_MS = 86400000 };

static int be_sleeper(int started, int gate)
{
	struct pollfd end = {.fd = gate, .events = POLLIN};
	if (write(started, "x", 1) != 1)
		return 1;
	close(started);
	return poll(&end, 1, DAY_MS) == 1 ? 0 : 1;
}

static void fail(const char *what, int error)
{
	fprintf(stderr, "crowd: %s: %s\n", what, strerror(error));
	exit(1);
}

static void start(size_t count, int started, int gate)
{
	char started_text[16], gate_text[16];
	snprintf(started_text, sizeof started_text, "%d", started);
	snprintf(gate_text, sizeof gate_text, "%d", gate);
	char *command[] = {"crowd", "sleeper", started_text, gate_text, NULL};
	for (size_t i = 0; i < count; i++) {
		pid_t child;
		int error = posix_spawn(&child, "/proc/self/exe", NULL, NULL, command, environ);
		if (error)
			fail("a process cannot be started", error);
	}
}

static void wait_until_started(size_t count, int started)
{
	char bytes[4096];
	for (ssize_t got; count; count -= (size_t)got)
		if ((got = read(started, bytes, sizeof bytes)) <= 0)
			fail("a process has ended early", 0);
}

static void wait_until_ended(size_t count)
{
	int status;
	for (; count; count--)
		if (waitpid(-1, &status, 0) < 0 || status != 0)
			fail("a process did not sleep until it was told to end", 0);
}

static void report(const char *what, uint64_t since)
{
	printf("%s\t%" PRIu64 "\n", what, ticks_now() - since);
	fflush(stdout);
}

static void wait_for_line(void)
{
	if (getchar() != '\n')
		exit(1);
}

int main(int argc, char **argv)
{
	int started[2], gate[2];
	if (argc == 4 && strcmp(argv[1], "sleeper") == 0)
		return be_sleeper(atoi(argv[2]), atoi(argv[3]));
	size_t count = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	if (!count) {
		fprintf(stderr, "usage: crowd COUNT\n");
		return 2;
	}
	/* The sleepers must not hold these ends open. */
	if (pipe(started) != 0 || pipe(gate) != 0 || fcntl(started[0], F_SETFD, FD_CLOEXEC) != 0
	    || fcntl(gate[1], F_SETFD, FD_CLOEXEC) != 0)
		fail("no pipe", 0);
	printf("begin\n");
	fflush(stdout);
	wait_for_line();
	uint64_t since = ticks_now();
	start(count, started[1], gate[0]);
	/* If all sleepers have failed, reading ends. */
	close(started[1]);
	wait_until_started(count, started[0]);
	report("started", since);
	wait_for_line();
	since = ticks_now();
	close(gate[1]);
	wait_until_ended(count);
	report("ended", since);
	wait_for_line();
	return 0;
}
