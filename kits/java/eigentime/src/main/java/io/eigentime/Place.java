package io.eigentime;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
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
    private static final String COMMAND = "EIGENTIME";
    private static final String RUNTIME = "EIGENTIME_RUNTIME_DIR";

    static Place of(String name) {
        return new Place(name, findCommand(), variable(RUNTIME, ""), false);
    }

    static Place of(Option.Creation creation) throws IOException {
        if (creation.name != null) {
            return of(creation.name);
        }
        if (creation.arguments.contains(Option.JOINABLE)) {
            return of("test-%016x".formatted(new Random().nextLong()));
        }
        Path command = findCommand();
        // Not in java.io.tmpdir, since the path of a socket has at most 107 bytes: unix(7).
        Path directory = Files.createTempDirectory(Path.of("/tmp"), "eigentime-");
        return new Place("test", command, directory.toString(), true);
    }

    private static Path findCommand() {
        String named = variable(COMMAND, "eigentime");
        Stream<Path> places = named.contains("/")
                ? Stream.of(Path.of(named))
                : Arrays.stream(variable("PATH", "").split(":")).map(folder -> Path.of(folder, named));
        String help = "install Eigentime, and put the command on PATH, or its path into the variable " + COMMAND;
        return places.filter(file -> Files.isRegularFile(file) && Files.isExecutable(file))
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
            var words = new ArrayList<>(List.of(command.toString(), "ctl", "create", name));
            words.addAll(creation.arguments);
            var builder = new ProcessBuilder(words).redirectInput(input.toFile());
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

    /** The command line that runs a program on the timeline. */
    List<String> run(String... program) {
        // Not in the environment of a ProcessBuilder, since callers may clear that: the command would make another
        // timeline of the same name then.
        var words = new ArrayList<>(
                List.of("env", RUNTIME + "=" + runtime, command.toString(), "run", "--timeline", name, "--"));
        words.addAll(List.of(program));
        return words;
    }

    Connection connect() {
        Path socket = sockets()
                .filter(Files::exists)
                .findFirst()
                .orElseThrow(() -> new EigentimeException(
                        "connection",
                        "there is no timeline '" + name + "', or it has ended",
                        "`eigentime ctl list` lists the timelines",
                        null));
        return new Connection(name, socket);
    }

    /** Where it can be: "Where timelines are found" in docs/guide/timelines.md. */
    private Stream<Path> sockets() {
        if (!runtime.isEmpty()) {
            return Stream.of(Path.of(runtime, "eigentime", name));
        }
        Object user = owner(Path.of("/proc/self"));
        return Stream.of(variable("XDG_RUNTIME_DIR", "/nonexistent"), "/run", "/run/user/" + user, "/tmp")
                .map(parent -> Path.of(parent, parent.equals("/tmp") ? "eigentime-" + user : "eigentime"))
                .filter(directory ->
                        Files.isDirectory(directory) && owner(directory).equals(user))
                .map(directory -> directory.resolve(name));
    }

    private static Object owner(Path path) {
        try {
            return Files.getAttribute(path, "unix:uid");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Where the timeline is from now on, so that commands that have been started, but have not joined, find nothing. */
    Place hide() throws IOException {
        String hidden =
                own ? Files.move(Path.of(runtime), Path.of(runtime + ".closed")).toString() : runtime;
        return new Place(name, command, hidden, own);
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
