/*
 * Events on time from one thread: through a callback, a counter and an eventfd.
 *
 *   cc ticker.c $(pkg-config --cflags --libs eigentime) -o ticker
 *   ./ticker [EVENTS [MICROSECONDS]]
 */
#include <eigentime.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int failed(eigentime_status status) {
    fprintf(stderr, "%s: %s\n", eigentime_strerror(status), eigentime_last_error());
    return 1;
}

struct seen {
    uint64_t ticks, missed, early, out_of_order, next;
};

/* Runs on the ticker's thread, so it must be short. */
static void count(const eigentime_tick *tick, void *user) {
    struct seen *seen = user;
    seen->ticks++;
    seen->missed += tick->missed;
    seen->early += tick->fired < tick->due;
    seen->out_of_order += tick->number != seen->next + tick->missed;
    seen->next = tick->number + 1;
}

int main(int argc, char **argv) {
    uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    int64_t period_ns = (argc > 2 ? atoll(argv[2]) : 1000) * 1000;

    eigentime_ticker *ticker;
    eigentime_status status = eigentime_ticker_start(NULL, &ticker);
    if (status != EIGENTIME_OK)
        return failed(status);

    struct seen seen = {0};
    eigentime_event *called, *counted, *written, *late;
    eigentime_event_options options = EIGENTIME_EVENT_OPTIONS_INIT;
    options.period_ns = period_ns;
    options.name = "callback";
    options.callback = count;
    options.user = &seen;
    options.shielded = 1;
    status = eigentime_ticker_add(ticker, &options, &called);
    if (status != EIGENTIME_OK)
        return failed(status);

    options = (eigentime_event_options)EIGENTIME_EVENT_OPTIONS_INIT;
    options.period_ns = period_ns;
    options.name = "counter";
    status = eigentime_ticker_add(ticker, &options, &counted);
    if (status != EIGENTIME_OK)
        return failed(status);

    options.name = "eventfd";
    options.eventfd = EIGENTIME_NEW_EVENTFD;
    status = eigentime_ticker_add(ticker, &options, &written);
    if (status != EIGENTIME_OK)
        return failed(status);

    /* One that is due once, after all the others. */
    options = (eigentime_event_options)EIGENTIME_EVENT_OPTIONS_INIT;
    options.name = "once";
    options.start = eigentime_add(eigentime_now(), (int64_t)events * period_ns);
    status = eigentime_ticker_add(ticker, &options, &late);
    if (status != EIGENTIME_OK)
        return failed(status);
    status = eigentime_event_wait(late, 0, -1, NULL);
    if (status != EIGENTIME_OK)
        return failed(status);
    printf("late=%d\n", eigentime_now() >= options.start);

    uint64_t passed = 0;
    status = eigentime_event_wait(counted, events - 1, -1, &passed);
    if (status != EIGENTIME_OK)
        return failed(status);
    printf("counted=%" PRIu64 "\n", passed);

    uint64_t written_to = 0;
    struct pollfd readable = {.fd = eigentime_event_fd(written), .events = POLLIN};
    while (written_to < events && poll(&readable, 1, -1) == 1) {
        uint64_t more;
        if (read(readable.fd, &more, sizeof more) == sizeof more)
            written_to += more;
    }
    printf("written=%" PRIu64 "\n", written_to);

    char text[2000];
    eigentime_ticker_text(ticker, text, sizeof text);
    printf("%s\n", text);

    /* From here on the callback no longer runs, so its data can be read. */
    eigentime_event_remove(called);
    printf("ticks=%" PRIu64 "\nmissed=%" PRIu64 "\nearly=%" PRIu64 "\nout_of_order=%" PRIu64 "\n",
           seen.ticks, seen.missed, seen.early, seen.out_of_order);
    eigentime_event_remove(counted);
    eigentime_event_remove(written);
    eigentime_event_remove(late);
    eigentime_ticker_stop(ticker);
    return 0;
}
