package io.eigentime;

import static io.eigentime.Option.date;

import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** What a fixture takes; run by name: {@code mvn --projects eigentime test -Dtest=FixtureBenchmark}. */
class FixtureBenchmark {
    private static final int WARMUP = 50;
    private static final int ROUNDS = 200;

    @Test
    void setUpAndTearDown() {
        long[] nanoseconds = LongStream.range(0, WARMUP + ROUNDS)
                .map(round -> {
                    long begin = System.nanoTime();
                    Timeline.create(date("2038-01-19")).close();
                    return System.nanoTime() - begin;
                })
                .skip(WARMUP)
                .sorted()
                .toArray();
        System.out.printf(
                "set-up and tear-down: least %.1f ms, median %.1f ms, 95th percentile %.1f ms%n",
                nanoseconds[0] / 1e6, nanoseconds[ROUNDS / 2] / 1e6, nanoseconds[ROUNDS * 95 / 100] / 1e6);
    }
}
