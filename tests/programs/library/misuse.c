/*
 * Calls with what they can't take: null, sizes that are none, members of the future. Prints what a
 * call says, and at the end how many of them said something else than they should.
 */
#include <eigentime.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

static int wrong;
/* For a number that is none, which a compiler would warn of. */
static volatile double zero;

static void holds(const char *what, int held) {
    if (!held) {
        printf("wrong: %s\n", what);
        wrong++;
    }
}

/* The status is this one, and the message has these words. */
static void refused(const char *what, eigentime_status found, eigentime_status wanted,
                    const char *words) {
    const char *message = eigentime_last_error();
    printf("%s: %s: %s\n", what, eigentime_strerror(found), message);
    holds(what, found == wanted && strstr(message, words) != NULL);
    holds("a message of C's", strstr(message, "::") == NULL);
}

static void readings(void) {
    refused("no reading", eigentime_read(NULL), EIGENTIME_INVALID, "null");
    refused("no ordered reading", eigentime_read_ordered(NULL), EIGENTIME_INVALID, "null");
    refused("no reading of an instant", eigentime_read_at(0, NULL), EIGENTIME_INVALID, "null");

    eigentime_reading small = EIGENTIME_READING_INIT;
    small.size = 8;
    refused("a small reading", eigentime_read(&small), EIGENTIME_INVALID, "EIGENTIME_READING_INIT");
    holds("a refused reading is left alone", small.wall_ns == 0);

    /* A program that was compiled against a later header. */
    struct {
        eigentime_reading known;
        char later[16];
    } large = {EIGENTIME_READING_INIT, "untouched"};
    large.known.size = sizeof large;
    holds("a large reading", eigentime_read(&large.known) == EIGENTIME_OK);
    holds("its size is what was filled", large.known.size == sizeof large.known);
    holds("the rest is left alone", strcmp(large.later, "untouched") == 0);
}

static void texts(void) {
    char text[16];
    memset(text, 'x', sizeof text);
    size_t whole = eigentime_trust_text(NULL, 0);
    holds("a text has a length", whole > 8);
    holds("no room is no text", eigentime_trust_text(text, 0) == whole && text[0] == 'x');
    holds("a cut text is a text", eigentime_trust_text(text, 8) == whole && strlen(text) <= 7);
    holds("nothing behind it", text[8] == 'x');
    holds("a status that is none", strlen(eigentime_strerror((eigentime_status)12345)) > 0);
}

static void extremes(void) {
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        eigentime_instant there = eigentime_add(eigentime_now(), ends[i]);
        eigentime_reading reading = EIGENTIME_READING_INIT;
        holds("any instant can be read", eigentime_read_at(there, &reading) == EIGENTIME_OK);
        eigentime_to_wall(eigentime_from_monotonic(ends[i]));
        eigentime_to_boottime(eigentime_from_wall(ends[i]));
    }
    holds("no overflow", eigentime_between(UINT64_MAX, 0) < 0);
}

static eigentime_sleeper *made(eigentime_sleeper_options options, eigentime_status *status) {
    eigentime_sleeper *sleeper = NULL;
    *status = eigentime_sleeper_new(&options, &sleeper);
    return sleeper;
}

static void sleepers(void) {
    refused("no place for a sleeper", eigentime_sleeper_new(NULL, NULL), EIGENTIME_INVALID, "null");
    refused("no sleeper", eigentime_sleep_for(NULL, 0, NULL), EIGENTIME_INVALID, "null");
    refused("no sleeper", eigentime_sleep_until(NULL, 0, NULL), EIGENTIME_INVALID, "null");
    refused("no sleeper", eigentime_sleep_until_interruptible(NULL, 0, NULL, NULL),
            EIGENTIME_INVALID, "null");
    refused("no sleeper", eigentime_sleeper_get_statistics(NULL, NULL), EIGENTIME_INVALID, "null");
    holds("no sleeper lacks nothing", eigentime_sleeper_degradations(NULL) == 0);
    holds("nor has it a text", eigentime_sleeper_degradation(NULL, 0, NULL, 0) == 0);
    eigentime_sleeper_free(NULL);

    const eigentime_sleeper_options usual = EIGENTIME_SLEEPER_OPTIONS_INIT;
    eigentime_sleeper_options options = usual;
    eigentime_status status;
    options.realtime = 100;
    holds("nothing is made", made(options, &status) == NULL);
    refused("a priority", status, EIGENTIME_INVALID, "100");
    options.realtime = -1;
    made(options, &status);
    refused("a priority", status, EIGENTIME_INVALID, "-1");
    options = usual;
    options.kernel_wait = 7;
    made(options, &status);
    refused("a wait", status, EIGENTIME_INVALID, "7");
    options = usual;
    options.quantile = 2;
    made(options, &status);
    refused("a quantile", status, EIGENTIME_INVALID, "quantile 2");
    options.quantile = 0.0 / zero;
    made(options, &status);
    refused("a quantile", status, EIGENTIME_INVALID, "NaN");
    options = usual;
    options.cpu = 3;
    made(options, &status);
    refused("a budget", status, EIGENTIME_INVALID, "3");

    /* A program that was compiled against a later header, and asks for something of it. */
    struct {
        eigentime_sleeper_options known;
        int64_t later;
    } large = {usual, 0};
    large.known.size = sizeof large;
    eigentime_sleeper *sleeper;
    holds("zeros", eigentime_sleeper_new(&large.known, &sleeper) == EIGENTIME_OK);
    holds("no time", eigentime_sleep_for(sleeper, INT64_MIN, NULL) == EIGENTIME_OK);
    holds("no report", eigentime_sleep_until(sleeper, 0, NULL) == EIGENTIME_OK);
    eigentime_sleeper_free(sleeper);
    large.later = 1;
    refused("a later option", eigentime_sleeper_new(&large.known, &sleeper), EIGENTIME_TOO_NEW,
            "byte 48 of an eigentime_sleeper_options");
    holds("no sleeper", sleeper == NULL);
}

static int calls, releases;

static void called(const eigentime_tick *tick, void *user) {
    holds("a tick and what belongs to it", tick->size >= 56 && user == &calls);
    calls++;
}

static void released(void *user) {
    holds("what belongs to it", user == &calls);
    releases++;
}

static void tickers(void) {
    refused("no place for a ticker", eigentime_ticker_start(NULL, NULL), EIGENTIME_INVALID, "null");
    refused("no ticker", eigentime_ticker_get_statistics(NULL, NULL), EIGENTIME_INVALID, "null");
    holds("no ticker lacks nothing", eigentime_ticker_degradations(NULL) == 0);
    holds("nor has it a text", eigentime_ticker_degradation(NULL, 0, NULL, 0) == 0);
    holds("none at all", eigentime_ticker_text(NULL, NULL, 0) == 0);
    eigentime_ticker_stop(NULL);
    eigentime_ticker_options wishes = EIGENTIME_TICKER_OPTIONS_INIT;
    eigentime_ticker *ticker;
    wishes.cpu = 2;
    refused("a budget", eigentime_ticker_start(&wishes, &ticker), EIGENTIME_INVALID, "2");
    holds("no ticker", ticker == NULL);

    const eigentime_event_options usual = {sizeof usual, 1000000, 0, "a name", called, &calls,
                                           released, -1, 0};
    eigentime_event_options options = usual;
    eigentime_event *event, *other;
    refused("no ticker", eigentime_ticker_add(NULL, &usual, &event), EIGENTIME_INVALID, "null");
    holds("released all the same", releases == 1);
    wishes = (eigentime_ticker_options)EIGENTIME_TICKER_OPTIONS_INIT;
    wishes.capacity = 2;
    holds("a ticker", eigentime_ticker_start(&wishes, &ticker) == EIGENTIME_OK);
    refused("no event", eigentime_ticker_add(ticker, NULL, &event), EIGENTIME_INVALID, "null");
    options.period_ns = -5;
    refused("a period", eigentime_ticker_add(ticker, &options, &event), EIGENTIME_INVALID, "-5");
    options.period_ns = 5;
    refused("a period", eigentime_ticker_add(ticker, &options, &event), EIGENTIME_INVALID, "5ns");
    options = usual;
    options.eventfd = 1;
    refused("two ways", eigentime_ticker_add(ticker, &options, &event), EIGENTIME_INVALID, "one way");
    holds("released all of them", releases == 4);
    options.callback = NULL;
    options.release = NULL;
    options.eventfd = 1;
    refused("not an eventfd", eigentime_ticker_add(ticker, &options, &event), EIGENTIME_INVALID,
            "EIGENTIME_NEW_EVENTFD");
    options.eventfd = 1000;
    refused("not open", eigentime_ticker_add(ticker, &options, &event), EIGENTIME_INVALID, "1000");
    options.eventfd = -7;
    refused("no descriptor", eigentime_ticker_add(ticker, &options, &event), EIGENTIME_INVALID, "-7");

    options = usual;
    options.shielded = 1;
    holds("an event", eigentime_ticker_add(ticker, &options, &event) == EIGENTIME_OK);
    refused("a second shield", eigentime_ticker_add(ticker, &options, &other), EIGENTIME_TAKEN,
            "a name");
    refused("a callback", eigentime_event_wait(event, 0, 0, NULL), EIGENTIME_INVALID, "callback");
    holds("it is not counted", eigentime_event_passed(event) == 0);
    holds("it has no descriptor", eigentime_event_fd(event) == -1);
    eigentime_event_statistics seen = EIGENTIME_EVENT_STATISTICS_INIT;
    holds("statistics", eigentime_event_get_statistics(event, &seen) == EIGENTIME_OK);
    holds("of it", seen.shielded && seen.ended == EIGENTIME_NOT_ENDED &&
                       seen.event == eigentime_event_number(event));

    eigentime_event_options counted = EIGENTIME_EVENT_OPTIONS_INIT;
    counted.start = eigentime_add(eigentime_now(), INT64_C(3600000000000));
    holds("one in an hour", eigentime_ticker_add(ticker, &counted, &other) == EIGENTIME_OK);
    refused("an hour", eigentime_event_wait(other, 0, 1000, NULL), EIGENTIME_TIMED_OUT, "1000 ns");
    refused("a third", eigentime_ticker_add(ticker, &counted, NULL), EIGENTIME_FULL,
            "2 events and was made for no more: give a greater `capacity`");

    releases = 0;
    eigentime_event_remove(event);
    holds("removed is released", releases == 1);
    eigentime_ticker_stop(ticker);
    refused("a stopped ticker", eigentime_event_wait(other, 0, -1, NULL), EIGENTIME_ENDED, "ended");
    holds("and says so", eigentime_event_get_statistics(other, &seen) == EIGENTIME_OK &&
                             seen.ended == EIGENTIME_ENDED_STOPPED);
    eigentime_event_remove(other);

    eigentime_event_remove(NULL);
    eigentime_event_keep(NULL);
    holds("no event is nothing", eigentime_event_number(NULL) == 0 &&
                                     eigentime_event_fired(NULL) == 0 &&
                                     eigentime_event_missed(NULL) == 0 &&
                                     eigentime_event_passed(NULL) == 0 &&
                                     eigentime_event_fd(NULL) == -1);
    refused("no event", eigentime_event_wait(NULL, 0, 0, NULL), EIGENTIME_INVALID, "null");
    refused("no event", eigentime_event_get_statistics(NULL, NULL), EIGENTIME_INVALID, "null");
}

static void upkeep(void) {
    eigentime_upkeep_thread *thread;
    refused("no place", eigentime_upkeep_start(1, NULL), EIGENTIME_INVALID, "null");
    refused("too often", eigentime_upkeep_start(1, &thread), EIGENTIME_INVALID, "1ns");
    refused("never", eigentime_upkeep_start(-1, &thread), EIGENTIME_INVALID, "-1");
    holds("none", thread == NULL);
    holds("a thread", eigentime_upkeep_start(10000000, &thread) == EIGENTIME_OK);
    eigentime_upkeep_stop(thread);
    eigentime_upkeep_stop(NULL);
    eigentime_upkeep();
}

int main(void) {
    holds("no failure yet", *eigentime_last_error() == '\0');
    readings();
    texts();
    extremes();
    sleepers();
    tickers();
    upkeep();
    printf("done=%d\n", wrong);
    return 0;
}
