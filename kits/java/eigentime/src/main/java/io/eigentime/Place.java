package io.eigentime;

import com.google.gson.stream.JsonReader;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.stream.Stream;

/** Where a timeline is, as reported by an {@code eigentime ctl} process, which holds the timeline if it made it. */
final class Place {
    private static final String INSTALLING =
            "install Eigentime, and put the command on PATH, or its path into the environment variable EIGENTIME";

    record Told(String name, String socket) {}

    final Told told;
    /** How programs find it; an empty value counts as unset. */
    private final String variable;

    private final Path command = findCommand();
    private final Process process;

    static Place of(String name) {
        return new Place("connection", "", List.of("show", "--json", "--", name));
    }

    static Place of(Option.Creation creation) {
        var words = new ArrayList<>(List.of("create", "--hold", "--json"));
        words.addAll(creation.arguments);
        words.addAll(creation.operands);
        return new Place("command", creation.saved, words);
    }

    private Place(String code, String saved, List<String> words) {
        var line = Stream.concat(Stream.of(command.toString(), "ctl"), words.stream());
        var builder = new ProcessBuilder(line.toList());
        // The path of a socket has at most 107 bytes (unix(7)); that of a private timeline takes 49 of them here.
        if (variable("TMPDIR", "").getBytes(StandardCharsets.UTF_8).length > 107 - 49) {
            builder.environment().put("TMPDIR", "/tmp");
        }
        try {
            process = builder.start();
            told = told(saved);
            if (told == null) {
                throw failure(code, "'" + command + "' tells of no timeline\nhelp: " + INSTALLING);
            }
            Path directory = Path.of(told.socket()).getParent();
            // In /tmp/eigentime-UID, it is found without.
            variable = "EIGENTIME_RUNTIME_DIR=" + (directory.endsWith("eigentime") ? directory.getParent() : "");
        } catch (IOException | ExecutionException error) {
            throw new EigentimeException("command", "eigentime ctl: " + error, null, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new EigentimeException(code, "eigentime ctl: interrupted", null, error);
        }
    }

    /** Waits for the process's report; null if it has failed. */
    private Told told(String saved) throws IOException, InterruptedException, ExecutionException {
        var told = new FutureTask<Told>(() -> {
            // If it does not read, it says why.
            new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8).print(saved);
            return Connection.JSON.fromJson(new JsonReader(process.inputReader(StandardCharsets.UTF_8)), Told.class);
        });
        // An interrupt does not end a read, but it ends the wait for another thread that reads.
        var reader = new Thread(told, "eigentime");
        reader.setDaemon(true);
        reader.start();
        try {
            return told.get();
        } catch (InterruptedException | ExecutionException error) {
            process.getOutputStream().close();
            throw error;
        }
    }

    /** With what the process has said, or else with the given message. */
    private EigentimeException failure(String code, String otherwise) throws IOException {
        String complaints = new String(process.getErrorStream().readAllBytes(), StandardCharsets.UTF_8).strip();
        String said = complaints.isEmpty() ? otherwise : complaints;
        // The lines of a message, then help or a tip, then the usage text.
        String[] parts =
                said.replace("\n\n  tip: ", "\nhelp: ").split("\n\n")[0].split("\nhelp: ", 2);
        String message = parts[0].replaceFirst("^(eigentime|error): ", "");
        return new EigentimeException(code, message, parts.length == 2 ? parts[1] : null, null);
    }

    /** Ends the timeline if the process holds it, and waits for that even when interrupted. */
    void close() {
        try {
            process.getOutputStream().close();
            int status = process.onExit().join().exitValue();
            if (status != 0) {
                throw failure("command", "eigentime ctl create ended with status " + status);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Path findCommand() {
        String named = variable("EIGENTIME", "eigentime");
        String path = named.contains("/") ? "" : variable("PATH", "");
        Path found = Arrays.stream(path.split(":"))
                .map(folder -> Path.of(folder, named))
                .filter(file -> Files.isRegularFile(file) && Files.isExecutable(file))
                .findFirst()
                .orElseThrow(() ->
                        new EigentimeException("command", "the command '" + named + "' is missing", INSTALLING, null))
                .toAbsolutePath();
        if (found.toString().contains("=")) { // The command env would take it for a variable.
            String help = "let the environment variable EIGENTIME name a link to it whose path has none";
            throw new EigentimeException("command", "the path of the command '" + found + "' has a '='", help, null);
        }
        return found;
    }

    private static String variable(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    /** A command that runs a program on the timeline, which must not have ended. */
    ProcessBuilder command(String... program) {
        connect().close(); // It reports whether the timeline has ended.
        // Not in the environment of the ProcessBuilder: callers may clear that, and the command would not find it.
        var line = Stream.of("env", variable, command.toString(), "run", "--timeline", told.name(), "--existing", "--");
        return new ProcessBuilder(Stream.concat(line, Stream.of(program)).toArray(String[]::new));
    }

    Connection connect() {
        return new Connection(Path.of(told.socket()));
    }
}
