/* A loop that wakes at every full minute, like cron.
 *
 *   minutes COUNT
 *
 * It prints how many seconds have passed on its clock, and fails if it woke early or missed a
 * minute.  */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MINUTE_S = 60, NANOS = 1000000000 };

int main(int argc, char **argv)
{
	long count = argc == 2 ? atol(argv[1]) : 0;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	time_t begin = now.tv_sec;
	for (long wake = 0; wake < count; wake++) {
		time_t next = now.tv_sec - now.tv_sec % MINUTE_S + MINUTE_S;
		struct timespec left = { next - now.tv_sec - 1, NANOS - now.tv_nsec };
		if (left.tv_nsec == NANOS) {
			left.tv_sec++;
			left.tv_nsec = 0;
		}
		nanosleep(&left, NULL);
		clock_gettime(CLOCK_REALTIME, &now);
		if (now.tv_sec < next || now.tv_sec >= next + MINUTE_S) {
			fprintf(stderr, "minutes: woke at %ld for %ld\n", (long)now.tv_sec, (long)next);
			return 1;
		}
	}
	printf("%ld\n", (long)(now.tv_sec - begin));
	return 0;
}
