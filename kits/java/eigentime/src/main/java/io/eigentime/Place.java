package io.eigentime;

import com.sun.security.auth.module.UnixSystem;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.stream.Stream;

/**
 * Where a timeline is, and the command that makes it.
 *
 * @param name its name
 * @param command the path of the command {@code eigentime}
 * @param runtime the value of {@link #RUNTIME} by which programs find it; if empty, the variable counts as missing
 * @param own was the runtime directory made for it alone?
 */
record Place(String name, Path command, String runtime, boolean own) {
    private static final String RUNTIME = "EIGENTIME_RUNTIME_DIR";

    static Place of(String name) {
        return new Place(name, findCommand(), variable(RUNTIME, ""), false);
    }

    static Place of(Option.Creation creation) throws IOException {
        if (creation.name != null || creation.arguments.contains("--joinable")) {
            return of(Objects.requireNonNullElseGet(creation.name, () -> "test-" + UUID.randomUUID()));
        }
        Path command = findCommand();
        // Not in java.io.tmpdir, since the path of a socket has at most 107 bytes: unix(7).
        return new Place(
                "test",
                command,
                Files.createTempDirectory(Path.of("/tmp"), "eigentime-").toString(),
                true);
    }

    private static Path findCommand() {
        String named = variable("EIGENTIME", "eigentime");
        String path = named.contains("/") ? "" : variable("PATH", "");
        String help = "install it, and put the command on PATH, or its path into the environment variable EIGENTIME";
        return Arrays.stream(path.split(":"))
                .map(folder -> Path.of(folder, named))
                .filter(file -> Files.isRegularFile(file) && Files.isExecutable(file))
                .findFirst()
                .orElseThrow(
                        () -> new EigentimeException("command", "the command '" + named + "' is missing", help, null))
                .toAbsolutePath();
    }

    private static String variable(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    /** Runs the command that makes the timeline. */
    void create(Option.Creation creation) throws IOException, InterruptedException {
        // Files and not pipes: the supervisor of the timeline keeps its standard error open.
        Path input = Files.createTempFile("eigentime-", ".json");
        Path complaints = Files.createTempFile("eigentime-", ".log");
        try {
            Files.writeString(input, creation.saved);
            creation.arguments.addAll(0, List.of(command.toString(), "ctl", "create", name));
            var builder = new ProcessBuilder(creation.arguments).redirectInput(input.toFile());
            builder.redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(complaints.toFile());
            builder.environment().put(RUNTIME, runtime);
            if (builder.start().waitFor() != 0) {
                // Lines of a message, then those of help.
                String[] parts = Files.readString(complaints).strip().split("\nhelp: ", 2);
                String message = parts[0].replaceFirst("^(eigentime|error): ", "");
                throw new EigentimeException("command", message, parts.length == 2 ? parts[1] : null, null);
            }
        } finally {
            Files.delete(input);
            Files.delete(complaints);
        }
    }

    /** A command that runs a program on the timeline. */
    ProcessBuilder command(String... program) {
        // Not in the environment of the ProcessBuilder, since callers may clear that: the command would make another
        // timeline of the same name then.
        var words = Stream.of(
                "env", RUNTIME + "=" + runtime, command.toString(), "run", "--timeline", name, "--existing", "--");
        return new ProcessBuilder(Stream.concat(words, Stream.of(program)).toArray(String[]::new));
    }

    Connection connect() {
        Path socket = sockets().filter(Files::exists).findFirst().orElseThrow(() -> {
            String message = "there is no timeline '" + name + "', or it has ended";
            return new EigentimeException("connection", message, "`eigentime ctl list` lists the timelines", null);
        });
        return new Connection(socket);
    }

    /** Where it can be: "Where timelines are found" in docs/guide/timelines.md. */
    private Stream<Path> sockets() {
        if (!runtime.isEmpty()) {
            return Stream.of(Path.of(runtime, "eigentime", name));
        }
        long user = new UnixSystem().getUid();
        String session = variable("XDG_RUNTIME_DIR", "/nonexistent");
        String login = "/run/user/" + user + "/eigentime";
        return Stream.of(session + "/eigentime", "/run/eigentime", login, "/tmp/eigentime-" + user)
                .map(directory -> Path.of(directory, name));
    }

    /** Deletes what was made for the timeline alone. */
    void delete() throws IOException {
        if (own) {
            try (Stream<Path> found = Files.walk(Path.of(runtime))) {
                for (Path file : found.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
        }
    }
}
