/* Changes a page of 64 MB every 20 ms of its clock. On each SIGUSR1, it prints a number, the wall clock and
 * the monotonic clock, and whether its memory has changed unexpectedly. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PAGE = 4096, PAGES = (64 << 20) / PAGE, TICK_NS = 20 * 1000 * 1000 };

static unsigned char held[PAGES][PAGE], expected[PAGES];

static void change(long page, long number)
{
	expected[page] = number % 255 + 1;
	memset(held[page], expected[page], PAGE);
}

static int is_as_it_was(void)
{
	for (long page = 0; page < PAGES; page++)
		for (long byte = 0; byte < PAGE; byte++)
			if (held[page][byte] != expected[page])
				return 0;
	return 1;
}

int main(void)
{
	struct timespec tick = { 0, TICK_NS }, wall, monotonic;
	sigset_t asked;

	sigemptyset(&asked);
	sigaddset(&asked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &asked, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (long page = 0; page < PAGES; page++)
		change(page, page);
	for (long number = 0, told = 0, is_asked = 1;; number++) {
		change(number % PAGES, number);
		if (is_asked) {
			clock_gettime(CLOCK_REALTIME, &wall);
			clock_gettime(CLOCK_MONOTONIC, &monotonic);
			if (!is_as_it_was())
				puts("its memory is not what it was");
			printf("%ld %ld.%09ld %ld.%09ld\n", told++, wall.tv_sec, wall.tv_nsec, monotonic.tv_sec,
			       monotonic.tv_nsec);
		}
		is_asked = sigtimedwait(&asked, NULL, &tick) == SIGUSR1;
	}
}
