/* Keeps running while it is moved between timelines.
 *
 *   moved THREADS CHILD
 *
 * THREADS threads sleep and read the clocks in turn, through the vDSO and by system
 * calls. Prints `ready`; then, for every line of milliseconds on standard input:
 * date= and what the threads saw so far (back= backward steps of CLOCK_MONOTONIC within
 * one thread, failed= calls, loops=), and how long a sleep takes (`old begin`, `old end`),
 * one in a thread made for it (`new`), and one in the shell script CHILD (`child`);
 * ended by `done`. Its exit status is 7 when its input ends. */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { PAUSE_MS = 20, STATUS = 7 };

static _Atomic long back, failed, loops;
static _Atomic int living;

static void look(struct timespec *last)
{
	struct timespec seen[3];
	if (clock_gettime(CLOCK_MONOTONIC, &seen[0]) != 0 ||
	    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &seen[1]) != 0 ||
	    clock_gettime(CLOCK_MONOTONIC, &seen[2]) != 0 ||
	    syscall(SYS_clock_gettime, CLOCK_REALTIME, &(struct timespec){ 0 }) != 0) {
		failed++;
		return;
	}
	for (int i = 0; i < 3; i++) {
		if (ms_between(*last, seen[i]) < 0)
			back++;
		*last = seen[i];
	}
}

static void *live(void *unused)
{
	(void)unused;
	struct timespec last = now(CLOCK_MONOTONIC);
	for (living++;; loops++) {
		look(&last);
		struct timespec pause = from_ms(PAUSE_MS);
		if (nanosleep(&pause, NULL) != 0)
			failed++;
		look(&last);
	}
	return NULL;
}

static void measure(const char *name, long ms)
{
	say("%s begin", name);
	struct timespec pause = from_ms(ms);
	must(nanosleep(&pause, NULL) == 0, "nanosleep");
	say("%s end", name);
}

static void *measure_here(void *ms)
{
	measure("new", *(long *)ms);
	return NULL;
}

static void start_child(const char *script, long ms)
{
	char seconds[32];
	snprintf(seconds, sizeof seconds, "%.3f", (double)ms / MS_PER_S);
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		execlp("sh", "sh", script, seconds, (char *)NULL);
		_exit(93);
	}
	int status;
	must(waitpid(child, &status, 0) == child, "waitpid");
	must(status == 0, "the child's exit status");
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: moved THREADS CHILD\n");
		return 92;
	}
	int threads = atoi(argv[1]);
	pthread_t thread;
	for (int i = 0; i < threads; i++)
		must(pthread_create(&thread, NULL, live, NULL) == 0, "pthread_create");
	while (living < threads)
		usleep(100);
	say("ready");
	char line[32];
	while (fgets(line, sizeof line, stdin)) {
		long ms = strtol(line, NULL, 10);
		struct timespec date = now(CLOCK_REALTIME);
		say("date=%lld.%03ld", (long long)date.tv_sec, date.tv_nsec / NS_PER_MS);
		say("back=%ld", back);
		say("failed=%ld", failed);
		say("loops=%ld", loops);
		if (ms > 0) {
			measure("old", ms);
			must(pthread_create(&thread, NULL, measure_here, &ms) == 0, "pthread_create");
			must(pthread_join(thread, NULL) == 0, "pthread_join");
			start_child(argv[2], ms);
		}
		say("done");
	}
	return STATUS;
}
