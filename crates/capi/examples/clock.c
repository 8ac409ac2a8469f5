/*
 * The current time, its error bounds, and the clock's source.
 *
 *   cc clock.c $(pkg-config --cflags --libs eigentime) -o clock
 */
#include <eigentime.h>

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static void print_error(const char *clock, uint64_t ns) {
    if (ns == EIGENTIME_UNBOUNDED)
        printf("%s_error=unbounded\n", clock);
    else
        printf("%s_error=%" PRIu64 "\n", clock, ns);
}

int main(void) {
    char why[200];
    eigentime_trust_text(why, sizeof why);
    printf("version=%s\ntrust=%s\n", eigentime_version(), why);

    eigentime_reading reading = EIGENTIME_READING_INIT;
    eigentime_status status = eigentime_read(&reading);
    if (status != EIGENTIME_OK) {
        fprintf(stderr, "%s: %s\n", eigentime_strerror(status), eigentime_last_error());
        return 1;
    }
    time_t seconds = reading.wall_ns / 1000000000;
    char date[32];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&seconds));
    printf("date=%s\nwall=%" PRId64 "\nmonotonic=%" PRId64 "\n", date, reading.wall_ns,
           reading.monotonic_ns);
    print_error("monotonic", reading.error_ns);
    print_error("wall", reading.wall_error_ns);
    print_error("utc", reading.utc_error_ns);

    /* Measures a loop: only ticks are read in it, and converted to nanoseconds afterwards. */
    enum { READS = 1000000 };
    eigentime_instant start = eigentime_now_ordered();
    for (int i = 0; i < READS; i++)
        eigentime_now();
    eigentime_instant end = eigentime_now_ordered();
    printf("read_ns=%.1f\n", (double)eigentime_between(start, end) / READS);
    return 0;
}
