/*
 * Sleeps that end on time: how late they were, and what that cost.
 *
 *   cc sleep.c $(pkg-config --cflags --libs eigentime) -o sleep
 *   ./sleep [SLEEPS [MICROSECONDS [PROCESSOR]]]
 */
#include <eigentime.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(eigentime_status status) {
    fprintf(stderr, "%s: %s\n", eigentime_strerror(status), eigentime_last_error());
    return 1;
}

int main(int argc, char **argv) {
    int sleeps = argc > 1 ? atoi(argv[1]) : 100;
    int64_t length_ns = (argc > 2 ? atoll(argv[2]) : 1000) * 1000;

    eigentime_sleeper_options options = EIGENTIME_SLEEPER_OPTIONS_INIT;
    options.quantile = 0.99;
    if (argc > 3)
        options.pin = atoi(argv[3]);
    eigentime_sleeper *sleeper;
    eigentime_status status = eigentime_sleeper_new(&options, &sleeper);
    if (status != EIGENTIME_OK)
        return failed(status);

    /* A request that is not granted makes sleeps less precise, but is not a failure. */
    for (size_t i = 0; i < eigentime_sleeper_degradations(sleeper); i++) {
        char why[300];
        eigentime_sleeper_degradation(sleeper, i, why, sizeof why);
        printf("degraded=%s\n", why);
    }

    int early = 0;
    eigentime_instant start = eigentime_now();
    for (int i = 1; i <= sleeps; i++) {
        /* Relative to the start, not to the last wake-up, so that errors do not add up. */
        eigentime_instant target = eigentime_add(start, i * length_ns);
        eigentime_slept slept = EIGENTIME_SLEPT_INIT;
        status = eigentime_sleep_until(sleeper, target, &slept);
        if (status != EIGENTIME_OK)
            return failed(status);
        early += slept.woke < target;
        if (slept.lateness != EIGENTIME_ON_TIME)
            printf("sleep %d was %" PRId64 " ns late: %s\n", i, slept.miss_ns,
                   slept.lateness == EIGENTIME_PREEMPTED ? "preempted" : "woken late");
    }
    printf("slept=%" PRId64 "\nearly=%d\n", eigentime_between(start, eigentime_now()), early);

    eigentime_sleeper_statistics sum = EIGENTIME_SLEEPER_STATISTICS_INIT;
    eigentime_sleeper_get_statistics(sleeper, &sum);
    printf("sleeps=%" PRIu64 "\nwoken_late=%" PRIu64 "\npreempted=%" PRIu64 "\n", sum.sleeps,
           sum.woken_late, sum.preempted);
    printf("worst_ns=%" PRId64 "\nspun_ns=%" PRId64 "\n", sum.worst_ns, sum.spun_ns);
    eigentime_sleeper_free(sleeper);
    return 0;
}
