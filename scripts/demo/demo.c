/* Prints its wall clock, sleeps ten seconds, prints it again. Linked statically, so that it contains
 * nothing that a preloaded library could replace. */
#include <stdio.h>
#include <time.h>

static void print_wall_clock(void)
{
    struct timespec now;
    char second[sizeof "2038-01-19T03:14:07"];

    clock_gettime(CLOCK_REALTIME, &now);
    strftime(second, sizeof second, "%Y-%m-%dT%H:%M:%S", gmtime(&now.tv_sec));
    printf("%s.%03ldZ\n", second, now.tv_nsec / 1000000);
    fflush(stdout);
}

int main(void)
{
    struct timespec ten_seconds = {.tv_sec = 10};

    print_wall_clock();
    nanosleep(&ten_seconds, NULL);
    print_wall_clock();
    return 0;
}
