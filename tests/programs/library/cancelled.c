/* A thread that is cancelled already goes through every call of the library that opens, closes,
 * starts or ends something, and through the clock's first comparison: it ends in none of them. */
#include <eigentime.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static const char *reached = "nothing";

#define CALL(call)      \
    do {                \
        reached = #call; \
        (void)(call);   \
    } while (0)

static void tick(const eigentime_tick *tick, void *user) {
    (void)tick;
    (void)user;
}

/* Longer than the clock goes without asking the kernel for its verdict. */
static void read_for(int64_t ns) {
    for (eigentime_instant start = eigentime_now(); eigentime_between(start, eigentime_now()) < ns;)
        ;
}

static void *go(void *unused) {
    (void)unused;
    pthread_cancel(pthread_self());
    CALL(eigentime_now());
    CALL(read_for(1200000000));
    CALL(eigentime_upkeep());

    eigentime_sleeper_options wishes = EIGENTIME_SLEEPER_OPTIONS_INIT;
    wishes.hold_latency = 1;
    eigentime_sleeper *sleeper;
    CALL(eigentime_sleeper_new(&wishes, &sleeper));
    CALL(eigentime_sleep_for(sleeper, 2000000, NULL));
    CALL(eigentime_sleeper_free(sleeper));

    eigentime_upkeep_thread *upkeep;
    CALL(eigentime_upkeep_start(1000000, &upkeep));
    CALL(eigentime_upkeep_stop(upkeep));

    eigentime_ticker_options all = EIGENTIME_TICKER_OPTIONS_INIT;
    all.hold_latency = 1;
    all.lock_memory = 1;
    eigentime_ticker *ticker;
    CALL(eigentime_ticker_start(&all, &ticker));
    eigentime_event_options options = EIGENTIME_EVENT_OPTIONS_INIT;
    options.period_ns = 1000000;
    eigentime_event *described;
    options.eventfd = EIGENTIME_NEW_EVENTFD;
    CALL(eigentime_ticker_add(ticker, &options, &described));
    eigentime_event *called;
    options.eventfd = -1;
    options.callback = tick;
    CALL(eigentime_ticker_add(ticker, &options, &called));
    CALL(eigentime_event_remove(described));
    CALL(eigentime_event_keep(called));
    CALL(eigentime_ticker_stop(ticker));
    reached = "the end";
    pause();
    return NULL;
}

int main(void) {
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, go, NULL) != 0 || pthread_join(thread, &result) != 0)
        return 1;
    printf("reached=%s\ncancelled=%d\n", reached, result == PTHREAD_CANCELED);
    return 0;
}
