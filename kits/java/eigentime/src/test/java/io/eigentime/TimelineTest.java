package io.eigentime;

import static io.eigentime.Condition.blocked;
import static io.eigentime.Condition.blockedIn;
import static io.eigentime.Condition.elapsed;
import static io.eigentime.Condition.empty;
import static io.eigentime.Condition.ended;
import static io.eigentime.Condition.idle;
import static io.eigentime.Condition.joined;
import static io.eigentime.Condition.skipped;
import static io.eigentime.Condition.until;
import static io.eigentime.Option.arguments;
import static io.eigentime.Option.continuing;
import static io.eigentime.Option.date;
import static io.eigentime.Option.frozen;
import static io.eigentime.Option.joinable;
import static io.eigentime.Option.name;
import static io.eigentime.Option.offset;
import static io.eigentime.Option.rate;
import static io.eigentime.Option.skipIdle;
import static io.eigentime.Option.skipWhenTold;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.argumentSet;

import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** On the real command. Waits fail after two minutes on a busy machine. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class TimelineTest {
    private static final Instant START = Instant.parse("2038-01-19T00:00:00Z");
    private static final Duration DAY = Duration.ofDays(1);
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    /** Runs a command and returns what it prints. */
    private static String output(ProcessBuilder command) throws Exception {
        Process process = command.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String printed = new String(process.getInputStream().readAllBytes()).strip();
        assertEquals(0, process.waitFor(), () -> command.command() + " printed " + printed);
        return printed;
    }

    private static void assertWithinAnHourAfter(Instant earliest, Instant instant) {
        boolean within = !instant.isBefore(earliest) && instant.isBefore(earliest.plusSeconds(3600));
        assertTrue(within, () -> instant + " is not within the hour after " + earliest);
    }

    private static EigentimeException assertCode(String code, org.junit.jupiter.api.function.Executable call) {
        var error = assertThrows(EigentimeException.class, call);
        assertEquals(code, error.code(), error::getMessage);
        return error;
    }

    @Test
    void programsSeeTheDate() throws Exception {
        try (var timeline = Timeline.create(date(START))) {
            assertEquals("2038-01-19", output(timeline.command("date", "-u", "+%F")));
            assertWithinAnHourAfter(START, timeline.now());
        }
    }

    static Stream<Arguments> starts() {
        Instant now = Instant.now();
        return Stream.of(
                argumentSet("date", START, "running", 1, List.of(date("2038-01-19T00:00:00Z"))),
                argumentSet("offset", now.plus(DAY), "running", 1, List.of(offset(DAY))),
                argumentSet("back", now.minus(DAY), "running", 1, List.of(offset(DAY.negated()))),
                argumentSet("rate", START, "running", 2.5, List.of(date(START), rate(2.5))),
                argumentSet("slow", START, "running", 0.001, List.of(date(START), rate(0.001))),
                argumentSet("frozen", START, "frozen", 1, List.of(date(START), frozen())),
                argumentSet("arguments", START, "wall frozen", 1, List.of(date(START), arguments("--freeze=wall"))));
    }

    @ParameterizedTest
    @MethodSource("starts")
    void allOptionsOfTheStart(Instant earliest, String state, double rate, List<Option> options) {
        try (var timeline = Timeline.create(options.toArray(new Option[0]))) {
            assertWithinAnHourAfter(earliest, timeline.now());
            assertEquals(rate, timeline.show().rate());
            assertEquals(state, timeline.show().state());
        }
    }

    @Test
    void aLeapEndsASleep() throws Exception {
        try (var timeline = Timeline.create(date(START))) {
            // Not longer: GNU sleep splits sleeps of more than 24 days into several waits.
            Process sleeper = timeline.command("sleep", "20d").start();
            timeline.waitFor(blockedIn("clock_nanosleep"), PATIENCE);
            State.Member member = timeline.show().members().get(0);
            assertEquals("sleep 20d", member.command());
            assertEquals("clock_nanosleep", member.threads().get(0).call());
            timeline.waitFor(blockedIn(member.pid(), null), PATIENCE);
            timeline.leap(Duration.ofDays(20));
            assertEquals(0, sleeper.waitFor());
            timeline.waitFor(empty(), PATIENCE);
            assertWithinAnHourAfter(START.plus(Duration.ofDays(20)), timeline.now());
        }
    }

    @Test
    void theClocksAreSetAndStopped() {
        try (var timeline = Timeline.create()) {
            Instant later = Instant.parse("2040-02-29T12:00:00.123456789Z");
            timeline.freeze();
            timeline.set(date(later), rate(0.25));
            assertEquals(later, timeline.now());
            timeline.leap(Duration.ofNanos(1));
            assertEquals(later.plusNanos(1), timeline.now());
            assertEquals("frozen", timeline.show().state());
            assertEquals(0.25, timeline.show().rate());
            timeline.set(rate(1e6));
            assertEquals(1e6, timeline.show().rate());
            timeline.set(rate(1));
            timeline.thaw();
            timeline.freezeWall();
            assertEquals("wall frozen", timeline.show().state());
            timeline.thaw();
            timeline.set(offset(Duration.ZERO));
            assertWithinAnHourAfter(Instant.now().minusSeconds(60), timeline.now());
        }
    }

    @Test
    void aSavedTimelineContinues() {
        try (var first = Timeline.create(date(START), frozen())) {
            first.leap(DAY);
            try (var second = Timeline.create(continuing(first.save()))) {
                assertEquals(START.plus(DAY), second.now());
            }
        }
    }

    @Test
    void waitsEndAtAnInstant() {
        try (var timeline = Timeline.create(date(START), rate(1000))) {
            timeline.waitFor(until(START.plusSeconds(60)));
            Instant reached = timeline.now();
            assertFalse(reached.isBefore(START.plusSeconds(60)));
            timeline.waitFor(elapsed(Duration.ofMinutes(1)), PATIENCE);
            assertFalse(timeline.now().isBefore(reached.plusSeconds(60)));
        }
    }

    @Test
    void aWaitThatTakesTooLongSaysWhy() {
        try (var timeline = Timeline.create()) {
            var error = assertCode("timeout", () -> timeline.waitFor(blockedIn("accept4"), Duration.ofMillis(50)));
            assertTrue(error.getMessage().contains("no such thread"), error.getMessage());
        }
    }

    @Test
    void aThreadThatIsInterruptedWaitsNoLongerAndCanStillClose() throws Exception {
        var timeline = Timeline.create();
        Thread.currentThread().interrupt();
        assertCode("connection", () -> timeline.waitFor(ended()));
        assertTrue(Thread.currentThread().isInterrupted());
        timeline.close();
        assertTrue(Thread.interrupted());
        assertCode("ended", timeline::now);
    }

    @RepeatedTest(5)
    void aStartedCommandHasJoined() throws Exception {
        try (var timeline = Timeline.create()) {
            Process sleeper = timeline.command("sleep", "1000d").start();
            timeline.waitFor(joined(sleeper.pid()), PATIENCE);
            assertEquals(
                    List.of(sleeper.pid()),
                    timeline.show().members().stream().map(State.Member::pid).toList());
        }
    }

    @Test
    void idleTimeIsSkippedWhenTold() throws Exception {
        try (var timeline = Timeline.create(date(START), skipWhenTold())) {
            Process sleeper = timeline.command("sh", "-c", "sleep 1d; sleep 1d; sleep 1000d")
                    .start();
            timeline.waitFor(blockedIn("clock_nanosleep"), PATIENCE);
            timeline.skip(2);
            timeline.waitFor(skipped(), PATIENCE);
            assertWithinAnHourAfter(START.plus(Duration.ofDays(2)), timeline.now());
            timeline.skip(DAY);
            timeline.waitFor(skipped(), PATIENCE);
            assertWithinAnHourAfter(START.plus(Duration.ofDays(3)), timeline.now());
            timeline.skip(START.plus(Duration.ofDays(100)));
            timeline.waitFor(skipped(), PATIENCE);
            assertWithinAnHourAfter(START.plus(Duration.ofDays(100)), timeline.now());
            timeline.skip();
            assertEquals(0, sleeper.waitFor());
        }
    }

    @Test
    void idleTimeIsSkipped() throws Exception {
        try (var timeline = Timeline.create(date(START), skipIdle())) {
            assertEquals("2039-01-19", output(timeline.command("sh", "-c", "sleep 365d; date -u +%F")));
        }
    }

    @Test
    void aProgramThatWaitsIsIdle() throws Exception {
        try (var timeline = Timeline.create()) {
            Process cat = timeline.command("cat").start();
            timeline.waitFor(blocked(), PATIENCE);
            timeline.waitFor(idle(), PATIENCE);
            cat.getOutputStream().close();
            assertEquals(0, cat.waitFor());
        }
    }

    @Test
    void events() throws Exception {
        try (var timeline = Timeline.create(date(START))) {
            List<Event> events;
            try (Stream<Event> watched = timeline.watch()) {
                assertEquals(0, timeline.command("true").start().waitFor());
                timeline.waitFor(empty(), PATIENCE);
                timeline.set(rate(2));
                timeline.remove();
                events = watched.toList();
            }
            assertEquals(
                    List.of("joined", "ended", "changed", "removed"),
                    events.stream().map(Event::kind).toList());
            assertEquals("true", events.get(0).command());
            assertEquals(events.get(0).pid(), events.get(1).pid());
            assertEquals(2, events.get(2).rate());
            assertEquals("running", events.get(2).state());
            events.forEach(event -> assertWithinAnHourAfter(START, event.virtual()));
            assertWithinAnHourAfter(
                    Instant.now().minusSeconds(1800), events.get(0).host());
        }
    }

    @Test
    void eventsOfSkips() throws Exception {
        try (var timeline = Timeline.create(skipIdle());
                var events = timeline.watch()) {
            assertEquals(0, timeline.command("sleep", "10d").start().waitFor());
            Event skip = events.filter(event -> event.kind().equals("skipped"))
                    .findFirst()
                    .orElseThrow();
            assertTrue(skip.span().compareTo(Duration.ofDays(9)) > 0, skip::toString);
        }
    }

    @Test
    void errorsHaveACodeAndHelp() {
        try (var timeline = Timeline.create()) {
            assertNotNull(assertCode("invalid_params", () -> timeline.set(date("soon")))
                    .help());
            assertCode("invalid_params", () -> timeline.set(rate(Double.NaN)));
            assertCode("invalid_params", () -> timeline.leap(Duration.ofDays(365_000)));
            assertCode("refused", timeline::skip);
            var tooLate = Instant.parse("9999-12-31T00:00:00Z");
            for (var setting : List.of(rate(0), rate(Double.NaN), date(tooLate))) {
                assertNotNull(assertCode("invalid_params", () -> timeline.set(setting))
                        .help());
            }
            timeline.freeze();
            var frozen = assertCode("timeout", () -> timeline.waitFor(elapsed(DAY), Duration.ofMillis(1)));
            assertTrue(frozen.help().contains("thaw"), frozen.getMessage());
        }
        var misspelt = assertCode("command", () -> Timeline.create(arguments("--skipidle")));
        assertEquals(
                "unexpected argument '--skipidle' found", misspelt.getMessage().split("\n")[0]);
        assertEquals("a similar argument exists: '--skip-idle'", misspelt.help());
        assertCode("command", () -> Timeline.create(name("--help")));
        assertCode("connection", () -> Timeline.open("--help"));
        var error = assertCode("command", () -> Timeline.create(date("soon")));
        assertTrue(error.getMessage().contains("soon"), error.getMessage());
        assertNotNull(error.help());
        error = assertCode("command", () -> Timeline.create(continuing("{\"cut\": \"short")));
        assertTrue(error.getMessage().contains("cannot continue"), error.getMessage());
        error = assertCode("connection", () -> Timeline.open("no-such-timeline"));
        assertTrue(error.getMessage().contains("no-such-timeline"), error.getMessage());
    }

    @Test
    void aSupervisorThatIsKilledHasEnded() throws Exception {
        var timeline = Timeline.create();
        ProcessHandle.of(timeline.info().supervisor()).orElseThrow().destroyForcibly();
        // Its end is reported a moment after its death.
        timeline.waitFor(ended());
        assertCode("ended", timeline::now);
        timeline.close();
    }

    @Test
    void aHolderThatIsKilledIsNamed() {
        String name = "java-kit-killed-" + ProcessHandle.current().pid();
        var timeline = Timeline.create(name(name));
        ProcessHandle.current()
                .children()
                .filter(child ->
                        child.info().arguments().map(List::of).orElse(List.of()).contains(name))
                .forEach(ProcessHandle::destroyForcibly);
        var error = assertCode("command", timeline::close);
        assertEquals("eigentime ctl create ended with status 137", error.getMessage());
    }

    @Test
    void aSupervisorThatDoesNotAnswerIsGivenUp(@TempDir Path directory) throws Exception {
        var socket = directory.resolve("socket");
        try (var stopped = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            stopped.bind(UnixDomainSocketAddress.of(socket));
            try (var connection = new Connection(socket)) {
                var error = assertCode("silent", () -> connection.ask("info", Map.of(), Duration.ofMillis(50)));
                assertTrue(error.help().contains("kill -CONT"), error.getMessage());
            }
        }
    }

    @Test
    void aSocketWhosePathIsTooLongIsNamed(@TempDir Path directory) throws Exception {
        var socket = Files.createFile(directory.resolve("long".repeat(30)));
        var error = assertCode("connection", () -> new Connection(socket));
        assertTrue(error.getMessage().contains(socket.toString()), error.getMessage());
        assertTrue(error.help().contains("107 bytes"), error.getMessage());
    }

    @Test
    void theEndTakesTheProgramsAlongAndLeavesNothing() throws Exception {
        Process sleeper;
        Path directory;
        try (var timeline = Timeline.create()) {
            var command = timeline.command("sleep", "1000d");
            directory = Path.of(command.command().get(1).split("=")[1]);
            assertTrue(Files.exists(directory));
            sleeper = command.start();
            timeline.waitFor(blocked(), PATIENCE);
        }
        assertEquals(128 + 9, sleeper.waitFor());
        assertFalse(Files.exists(directory));
    }

    @RepeatedTest(10)
    void soItDoesWithThoseThatHaveNotYetJoined() throws Exception {
        Process process;
        try (var timeline = Timeline.create()) {
            process =
                    timeline.command("sleep", "1000d").redirectErrorStream(true).start();
        }
        assertNotEquals(0, process.waitFor());
    }

    @Test
    void aTimelineIsClosedTwiceAndThenGone() {
        var timeline = Timeline.create();
        timeline.close();
        timeline.close();
        timeline.remove();
        assertCode("ended", () -> timeline.leap(DAY));
        assertCode("ended", () -> timeline.command("true"));
        assertCode("ended", () -> timeline.waitFor(idle()));
        timeline.waitFor(ended());
        timeline.waitFor(ended(), DAY);
    }

    @Test
    void aCommandWithAnotherEnvironment() throws Exception {
        try (var timeline = Timeline.create(date(START))) {
            var command = timeline.command("sh", "-c", "/bin/date -u +%F; echo $WHO");
            command.environment().clear();
            command.environment().put("WHO", "me");
            assertEquals("2038-01-19\nme", output(command));
        }
    }

    @Test
    void aCommandThatIsMissing() throws Exception {
        try (var timeline = Timeline.create()) {
            assertEquals(127, timeline.command("no-such-program").start().waitFor());
        }
    }

    @Test
    void manyTimelinesAndManyCallers() {
        IntStream.range(0, 4).parallel().forEach(day -> {
            try (var timeline = Timeline.create(date(START.plus(DAY.multipliedBy(day))), frozen())) {
                IntStream.range(0, 20).parallel().forEach(call -> timeline.leap(Duration.ofMinutes(1)));
                assertEquals(Duration.ofDays(day).plusMinutes(20), Duration.between(START, timeline.now()));
            }
        });
    }

    @Test
    void anotherSupervisorTakesOver() throws Exception {
        String name = "java-kit-kept-" + ProcessHandle.current().pid();
        try (var timeline = Timeline.create(name(name), date(START), arguments("--keep-running"))) {
            long before = timeline.info().supervisor();
            output(new ProcessBuilder(System.getenv("EIGENTIME"), "ctl", "adopt", name));
            timeline.leap(DAY);
            assertWithinAnHourAfter(START.plus(DAY), timeline.now());
            assertNotEquals(before, timeline.info().supervisor());
        }
    }

    @Test
    void namedTimelines() throws Exception {
        String name = "java-kit-shop-" + ProcessHandle.current().pid();
        try (var timeline = Timeline.create(name(name), date(START), joinable())) {
            try (var same = Timeline.open(name)) {
                same.leap(DAY.multipliedBy(2));
                assertEquals("2038-01-21", output(same.command("date", "-u", "+%F")));
            }
            // Closing an opened one leaves it as it is.
            assertWithinAnHourAfter(START.plus(DAY.multipliedBy(2)), timeline.now());
            assertCode("command", () -> Timeline.create(name(name)));
            // ... and so does a second one that could not be made.
            assertEquals(name, timeline.info().name());
            assertEquals(1, timeline.info().protocol());
            assertEquals(name, timeline.info().join().annotations().get("io.eigentime.timeline"));
            assertTrue(timeline.show().joinable());
            try (var other = Timeline.create(joinable())) {
                assertNotEquals(name, other.name());
            }
        }
    }
}
