/* Many short sleeps, and how many of them the kernel's own clock shows to have ended early. */
#define _DEFAULT_SOURCE /* for syscall() */
#include <eigentime.h>

#include <inttypes.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* By a system call, which nothing in the process can be in front of. */
static int64_t kernel_ns(void) {
    struct timespec now;
    if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) != 0)
        _exit(2);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int main(void) {
    enum { ROUNDS = 4000, SHORTEST_US = 10, LENGTHS = 7 };
    eigentime_sleeper *sleeper;
    if (eigentime_sleeper_new(NULL, &sleeper) != EIGENTIME_OK)
        return 1;
    int relative = 0, absolute = 0, timed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t length_ns = (SHORTEST_US + round % LENGTHS) * 1000;
        int64_t end = kernel_ns() + length_ns;
        if (eigentime_sleep_for(sleeper, length_ns, NULL) != EIGENTIME_OK)
            return 1;
        relative += kernel_ns() < end;

        end = kernel_ns() + length_ns;
        const eigentime_instant target = eigentime_add(eigentime_now(), length_ns);
        if (eigentime_sleep_until(sleeper, target, NULL) != EIGENTIME_OK)
            return 1;
        absolute += kernel_ns() < end;

        end = kernel_ns() + length_ns;
        if (eigentime_sleep_until(sleeper, eigentime_from_monotonic(end), NULL) != EIGENTIME_OK)
            return 1;
        timed += kernel_ns() < end;
    }
    printf("rounds=%d\nrelative=%d\nabsolute=%d\ntimed=%d\n", ROUNDS, relative, absolute, timed);
    eigentime_sleeper_free(sleeper);
    return 0;
}
