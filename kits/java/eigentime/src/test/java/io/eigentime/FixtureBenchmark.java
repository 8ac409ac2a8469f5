package io.eigentime;

import static io.eigentime.Option.date;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The cost of a fixture; run by name: {@code mvn --projects eigentime test -Dtest=FixtureBenchmark}. */
class FixtureBenchmark {
    private static final int WARMUP = 50;
    private static final int ROUNDS = 200;

    private interface Action {
        void run() throws Exception;
    }

    private static double milliseconds(Action action) throws Exception {
        long begin = System.nanoTime();
        action.run();
        return (System.nanoTime() - begin) / 1e6;
    }

    private static void command(String... words) throws Exception {
        var command = Stream.concat(Stream.of(System.getenv("EIGENTIME"), "ctl"), Stream.of(words));
        var builder = new ProcessBuilder(command.toList()).redirectOutput(ProcessBuilder.Redirect.DISCARD);
        assertEquals(0, builder.start().waitFor());
    }

    /** Alternates with the two commands that do the same. */
    @Test
    void setUpAndTearDown() throws Exception {
        String name = "bench-" + ProcessHandle.current().pid();
        var fixtures = new ArrayList<Double>();
        var commands = new ArrayList<Double>();
        for (int round = 0; round < WARMUP + ROUNDS; round++) {
            double fixture =
                    milliseconds(() -> Timeline.create(date("2038-01-19")).close());
            double bare = milliseconds(() -> {
                command("create", name);
                command("rm", "--force", name);
            });
            if (round >= WARMUP) {
                fixtures.add(fixture);
                commands.add(bare);
            }
        }
        tell("set-up and tear-down", fixtures);
        tell("ctl create and ctl rm", commands);
    }

    private static void tell(String what, List<Double> milliseconds) {
        var sorted = milliseconds.stream().sorted().toList();
        System.out.printf("%s: median %.1f ms, minimum %.1f ms%n", what, sorted.get(ROUNDS / 2), sorted.get(0));
    }
}
