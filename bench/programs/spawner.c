/* Measures the time from posix_spawn to the end of the child, in ticks.
 *
 *   spawner COUNT COMMAND [ARG...]     the median of COUNT successive runs
 *
 * At a level, it times the processes that a program there starts; on the host,
 * with a level's own command, it times that command.  */
#define _GNU_SOURCE
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "ticks.h"

extern char **environ;

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static int run_once(char **command)
{
	pid_t child;
	int status;
	int error = posix_spawnp(&child, command[0], NULL, NULL, command, environ);
	if (error) {
		fprintf(stderr, "spawner: %s: %s\n", command[0], strerror(error));
		return -1;
	}
	if (waitpid(child, &status, 0) != child || status != 0) {
		fprintf(stderr, "spawner: %s: wait status %#x\n", command[0], status);
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	size_t count = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	uint64_t *ticks = calloc(count, sizeof *ticks);
	if (!count || !ticks) {
		fprintf(stderr, "usage: spawner COUNT COMMAND [ARG...]\n");
		return 2;
	}
	/* The first one fills the caches and does not count. */
	if (run_once(argv + 2))
		return 1;
	for (size_t i = 0; i < count; i++) {
		uint64_t start = ticks_now();
		if (run_once(argv + 2))
			return 1;
		ticks[i] = ticks_now() - start;
	}
	qsort(ticks, count, sizeof *ticks, ascending);
	printf("%" PRIu64 "\n", ticks[count / 2]);
	return 0;
}
