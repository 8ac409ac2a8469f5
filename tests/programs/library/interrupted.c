/* A long sleep that a signal handler ends, and one that goes on after it. */
#include <eigentime.h>

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static volatile sig_atomic_t handled;

static void handle(int signal) {
    (void)signal;
    handled++;
}

static pthread_t sleeping;

/* Signals until one was handled in the sleep: it ends only then. */
static void *disturb(void *over) {
    while (!*(volatile int *)over) {
        pthread_kill(sleeping, SIGUSR1);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    eigentime_sleeper *sleeper;
    if (eigentime_sleeper_new(NULL, &sleeper) != EIGENTIME_OK)
        return 1;
    sleeping = pthread_self();

    const int64_t hour = INT64_C(3600000000000);
    volatile int over = 0;
    pthread_t other;
    pthread_create(&other, NULL, disturb, (void *)&over);
    eigentime_slept slept = EIGENTIME_SLEPT_INIT;
    int64_t remaining = -1;
    eigentime_status status = eigentime_sleep_until_interruptible(
        sleeper, eigentime_add(eigentime_now(), hour), &slept, &remaining);
    printf("status=%d\nmessage=%s\n", status, eigentime_last_error());
    /* The rate may be refined meanwhile. */
    printf("remaining=%d\n", remaining > 0 && remaining <= hour + hour / 1000);
    printf("untouched=%d\n", slept.woke == 0);

    handled = 0;
    status = eigentime_sleep_for(sleeper, 50000000, &slept);
    printf("handled=%d\nsecond=%d\n", handled > 0, status);
    printf("whole=%d\n", slept.woke >= slept.target);
    over = 1;
    pthread_join(other, NULL);

    remaining = -1;
    status = eigentime_sleep_until_interruptible(sleeper, eigentime_now(), &slept, &remaining);
    printf("third=%d\nnothing=%" PRId64 "\n", status, remaining);
    eigentime_sleeper_free(sleeper);
    return 0;
}
