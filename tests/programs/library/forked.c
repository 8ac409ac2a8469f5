/* A fork of a process that has a sleeper and a ticker: what goes on in it, and what ends. */
#include <eigentime.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void tick(const eigentime_tick *tick, void *user) {
    (void)tick;
    (void)user;
}

static int child(eigentime_sleeper *sleeper, eigentime_ticker *ticker, eigentime_event *called,
                 eigentime_event *counted, eigentime_instant before) {
    printf("later=%d\n", eigentime_now() >= before);
    eigentime_slept slept = EIGENTIME_SLEPT_INIT;
    printf("sleep=%d\n", eigentime_sleep_for(sleeper, 2000000, &slept));
    printf("whole=%d\n", slept.woke >= slept.target);
    printf("wait=%d\n", eigentime_event_wait(counted, UINT64_MAX - 1, -1, NULL));
    eigentime_event_options options = EIGENTIME_EVENT_OPTIONS_INIT;
    printf("add=%d\n", eigentime_ticker_add(ticker, &options, NULL));
    printf("message=%s\n", eigentime_last_error());
    eigentime_event_statistics seen = EIGENTIME_EVENT_STATISTICS_INIT;
    eigentime_event_get_statistics(called, &seen);
    printf("ended=%d\n", seen.ended == EIGENTIME_ENDED_FORKED);
    eigentime_event_remove(called);
    eigentime_event_remove(counted);
    eigentime_ticker_stop(ticker);
    eigentime_sleeper_free(sleeper);

    eigentime_ticker *own;
    eigentime_event *event;
    options.period_ns = 1000000;
    if (eigentime_ticker_start(NULL, &own) || eigentime_ticker_add(own, &options, &event))
        return 1;
    printf("own=%d\n", eigentime_event_wait(event, 2, -1, NULL));
    eigentime_event_remove(event);
    eigentime_ticker_stop(own);
    fflush(stdout);
    return 0;
}

int main(void) {
    eigentime_sleeper *sleeper;
    eigentime_ticker *ticker;
    eigentime_event *called, *counted;
    eigentime_event_options options = EIGENTIME_EVENT_OPTIONS_INIT;
    options.period_ns = 1000000;
    if (eigentime_sleeper_new(NULL, &sleeper) || eigentime_ticker_start(NULL, &ticker) ||
        eigentime_ticker_add(ticker, &options, &counted))
        return 1;
    options.callback = tick;
    if (eigentime_ticker_add(ticker, &options, &called))
        return 1;
    eigentime_instant before = eigentime_now();
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(sleeper, ticker, called, counted, before));
    int status = -1;
    waitpid(pid, &status, 0);
    printf("child=%d\n", status);

    uint64_t passed = eigentime_event_passed(counted);
    printf("goes_on=%d\n", eigentime_event_wait(counted, passed, -1, NULL));
    eigentime_event_remove(called);
    eigentime_event_remove(counted);
    eigentime_ticker_stop(ticker);
    eigentime_sleeper_free(sleeper);
    return 0;
}
