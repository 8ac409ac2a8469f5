package io.eigentime;

import static io.eigentime.Condition.blocked;
import static io.eigentime.Option.date;
import static io.eigentime.Option.frozen;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests in separate processes with a different environment. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class EnvironmentTest {
    /** Leaves a timeline and a program on it until the end of the process, which ends with its input. */
    static final class Child {
        public static void main(String[] names) throws IOException {
            try {
                Option[] options = Stream.concat(
                                Stream.of(date("2038-01-19T00:00:00Z"), frozen()),
                                Arrays.stream(names).map(Option::name))
                        .toArray(Option[]::new);
                var timeline = Timeline.create(options);
                var command = timeline.command("/bin/sleep", "1000d");
                command.environment().clear();
                command.environment().put("XDG_RUNTIME_DIR", "/nonexistent");
                System.out.println(command.start().pid());
                System.out.println(command.command().get(1).split("=", 2)[1]);
                timeline.waitFor(blocked(), Duration.ofMinutes(1));
                System.out.println(
                        names.length == 0
                                ? timeline.now()
                                : Timeline.open(names[0]).now());
                System.exit(System.in.read() + 1);
            } catch (EigentimeException error) {
                System.out.println(error.code() + ": " + error.getMessage());
            }
        }
    }

    private static Process start(Map<String, String> environment, String... names) throws IOException {
        var java = Path.of(System.getProperty("java.home"), "bin/java").toString();
        var classes = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        var builder = new ProcessBuilder(java, "-cp", classes, Child.class.getName());
        builder.command().addAll(List.of(names));
        builder.environment().putAll(environment);
        return builder.redirectErrorStream(true).start();
    }

    private static List<String> run(Map<String, String> environment, String... names) throws Exception {
        Process process = start(environment, names);
        process.getOutputStream().close();
        List<String> lines = process.inputReader().lines().toList();
        assertEquals(0, process.waitFor(), lines::toString);
        return lines;
    }

    /** Waits without a limit: the test has its own. */
    private static void await(BooleanSupplier condition) throws InterruptedException {
        while (!condition.getAsBoolean()) {
            Thread.sleep(10);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aTimelineEndsWithItsProcess(boolean killed) throws Exception {
        // The path of a socket there would be too long.
        Process process = start(Map.of("TMPDIR", "/tmp/" + "long".repeat(30)));
        var output = process.inputReader();
        long sleeper = Long.parseLong(output.readLine());
        Path directory = Path.of(output.readLine());
        assertEquals("2038-01-19T00:00:00Z", output.readLine());
        assertTrue(Files.exists(directory));
        if (killed) {
            process.destroyForcibly();
        } else {
            process.getOutputStream().close();
        }
        assertEquals(killed ? 128 + 9 : 0, process.waitFor());
        await(() -> Files.notExists(directory));
        // Only the end of the timeline ends it.
        ProcessHandle.of(sleeper).ifPresent(program -> program.onExit().join());
    }

    @ParameterizedTest
    @ValueSource(strings = {"EIGENTIME_RUNTIME_DIR", "XDG_RUNTIME_DIR"})
    void namedTimelinesAreWhereTheEnvironmentSays(String variable, @TempDir Path directory) throws Exception {
        var environment = Map.of(variable, directory.toString());
        if (variable.equals("XDG_RUNTIME_DIR")) {
            environment = Map.of(variable, directory.toString(), "EIGENTIME_RUNTIME_DIR", "");
        }
        List<String> lines = run(environment, "shop");
        assertEquals("2038-01-19T00:00:00Z", lines.get(2), lines::toString);
        Path place = directory.resolve("eigentime");
        await(() -> Arrays.equals(new String[] {".lock"}, place.toFile().list()));
    }

    @Test
    void theCommandIsFoundByPath(@TempDir Path directory) throws Exception {
        String script = "#!/bin/sh\nexec '" + System.getenv("EIGENTIME") + "' \"$@\"\n";
        assertTrue(Files.writeString(directory.resolve("eigentime"), script)
                .toFile()
                .setExecutable(true));
        String path = System.getenv("PATH") + ":" + directory;
        List<String> lines = run(Map.of("EIGENTIME", "", "PATH", path));
        assertEquals("2038-01-19T00:00:00Z", lines.get(2), lines::toString);
    }

    @Test
    void aMissingCommandSaysHowToInstallIt() throws Exception {
        List<String> lines = run(Map.of("EIGENTIME", "/nonexistent/eigentime"));
        assertEquals("command: the command '/nonexistent/eigentime' is missing", lines.get(0));
        assertTrue(lines.get(1).contains("environment variable EIGENTIME"), lines::toString);
        assertTrue(run(Map.of("EIGENTIME", "", "PATH", "/nonexistent")).get(0).contains("'eigentime' is missing"));
    }

    @Test
    void aCommandWhosePathLooksLikeAVariableIsNamed(@TempDir Path directory) throws Exception {
        Path odd = Files.createSymbolicLink(directory.resolve("a=b"), Path.of(System.getenv("EIGENTIME")));
        List<String> lines = run(Map.of("EIGENTIME", odd.toString()));
        assertEquals("command: the path of the command '" + odd + "' has a '='", lines.get(0));
        assertTrue(lines.get(1).contains("environment variable EIGENTIME"), lines::toString);
    }

    @Test
    void anotherCommandIsNamed() throws Exception {
        List<String> lines = run(Map.of("EIGENTIME", "/bin/true"));
        assertTrue(lines.get(0).startsWith("command: '/bin/true' tells of no timeline"), lines::toString);
        assertTrue(lines.get(1).contains("environment variable EIGENTIME"), lines::toString);
    }

    @Test
    void aMissingTemporaryDirectoryIsNamed() throws Exception {
        List<String> lines = run(Map.of("TMPDIR", "/nonexistent"));
        assertTrue(lines.get(0).contains("/nonexistent/"), lines::toString);
        assertTrue(lines.get(1).contains("set TMPDIR"), lines::toString);
    }
}
