package io.eigentime;

import io.eigentime.Connection.Answer;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A timeline of Eigentime: clocks for programs and containers, which the caller moves.
 *
 * <pre>{@code
 * try (var timeline = Timeline.create(date("2038-01-19"), rate(60))) {
 *     Process server = timeline.command("./server").start();
 *     timeline.waitFor(blockedIn("accept4"));
 *     timeline.leap(Duration.ofDays(30));
 * }
 * }</pre>
 *
 * <p>The command {@code eigentime} makes it: the one named by the environment variable {@code EIGENTIME}, or else
 * the one on {@code PATH}. The methods have the names and meanings of the timeline protocol, {@code
 * docs/guide/control.md} in the repository of Eigentime. They may be called from several threads at once, and throw
 * {@link EigentimeException}, also when a thread is interrupted while it waits.
 */
public final class Timeline implements AutoCloseable {
    /** How long a timeline may take to give an immediate answer. */
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    /** How long any other answer may take: a century. */
    private static final Duration NO_LIMIT = Duration.ofDays(36_500);

    private final Place place;

    private Timeline(Place place) {
        this.place = place;
    }

    /**
     * Makes a timeline, which ends at the latest when this process ends, for whatever reason. Without {@link
     * Option#name} and {@link Option#joinable}, no other program finds it.
     *
     * @param options how it is made
     * @return the timeline; {@link #close} ends it
     */
    public static Timeline create(Option... options) {
        return new Timeline(Place.of(new Option.Creation(options)));
    }

    /**
     * Finds an existing timeline of the user.
     *
     * @param name its name; for a container's timeline, the ID of the container
     * @return the timeline; {@link #close} leaves it as it is
     */
    public static Timeline open(String name) {
        return new Timeline(Place.of(name));
    }

    /** {@return the name under which {@code eigentime ctl} and containers find it, unless it is private} */
    public String name() {
        return place.told.name();
    }

    /**
     * A command that runs on the timeline, unless that has ended. If the program is missing, the command exits with
     * status 127.
     *
     * @param words the program and its arguments
     * @return the command, not started
     */
    public ProcessBuilder command(String... words) {
        return place.command(words);
    }

    /** {@return the time on the wall clock} */
    public Instant now() {
        return ask("info", Map.of()).virtual();
    }

    /** {@return what the timeline is and how to join it} */
    public Info info() {
        return Connection.JSON.fromJson(ask("info", Map.of()).result(), Info.class);
    }

    /** {@return the clocks and the members} */
    public State show() {
        return Connection.JSON.fromJson(ask("show", Map.of()).result(), State.class);
    }

    /**
     * Changes the rate, and the date or the offset.
     *
     * @param settings what to change
     */
    public void set(Option.Setting... settings) {
        var changes = Arrays.stream(settings).collect(Collectors.toMap(it -> it.name, it -> it.value));
        ask("set", changes);
    }

    /**
     * Moves all clocks forward at once. Waits that expire within the span end.
     *
     * @param span how far
     */
    public void leap(Duration span) {
        ask("leap", Map.of("span", Connection.text(span)));
    }

    /** Stops all clocks. */
    public void freeze() {
        ask("freeze", Map.of());
    }

    /** Stops the wall clock alone. */
    public void freezeWall() {
        ask("freeze", Map.of("wall", true));
    }

    /** Restarts the clocks. */
    public void thaw() {
        ask("thaw", Map.of());
    }

    /** {@return what {@link Option#continuing} resumes from: all clocks at one moment, and the rate} */
    public String save() {
        return ask("save", Map.of()).result().toString();
    }

    /**
     * Allows all leaps over idle time, on a timeline made with {@link Option#skipIdle} or {@link
     * Option#skipWhenTold}. It does not wait for them: {@link #waitFor} for {@link Condition#skipped} does.
     */
    public void skip() {
        ask("skip", Map.of());
    }

    /**
     * Allows this many leaps over idle time, as {@link #skip()} does.
     *
     * @param times how many
     */
    public void skip(long times) {
        ask("skip", Map.of("times", times));
    }

    /**
     * Allows leaps over this much time, as {@link #skip()} does.
     *
     * @param span how much virtual time
     */
    public void skip(Duration span) {
        ask("skip", Map.of("for", Connection.text(span)));
    }

    /**
     * Allows leaps until an instant, as {@link #skip()} does.
     *
     * @param until the date that the wall clock should reach
     */
    public void skip(Instant until) {
        ask("skip", Map.of("until", until.toString()));
    }

    /**
     * Waits until a condition holds, however long that takes.
     *
     * @param condition the condition
     */
    public void waitFor(Condition condition) {
        ask("wait", condition.params);
    }

    /**
     * Waits until a condition holds. If it does not in time, the error has the code {@code timeout} and says why.
     *
     * @param condition the condition
     * @param timeout how much host time that may take
     */
    public void waitFor(Condition condition, Duration timeout) {
        var params = new HashMap<>(condition.params);
        params.put("timeout", Connection.text(timeout));
        ask("wait", params);
    }

    /**
     * Returns the events from now on, until the timeline ends.
     *
     * @return the events; the caller must close them
     */
    public Stream<Event> watch() {
        Connection connection = place.connect();
        connection.ask("watch", Map.of(), PATIENCE);
        Stream<String> lines = connection.reader.lines().onClose(connection::close);
        return lines.map(line -> Connection.JSON.fromJson(line, Event.class));
    }

    /** Ends the timeline and its members. Doing so after it has ended is not an error. */
    public void remove() {
        try (Connection connection = place.connect()) {
            connection.ask("remove", Map.of("force", true), PATIENCE);
            connection.reader.lines().forEach(line -> {}); // It hangs up when nothing of the timeline is left.
        } catch (EigentimeException error) {
            if (!error.code().equals("ended")) {
                throw error;
            }
        }
    }

    /** Ends the timeline and its members, if {@link #create} made it. */
    @Override
    public void close() {
        place.close();
    }

    private Answer ask(String method, Map<String, ?> params) {
        while (true) {
            try (Connection connection = place.connect()) {
                return connection.ask(method, params, method.equals("wait") ? NO_LIMIT : PATIENCE);
            } catch (EigentimeException error) {
                // Its end may be what the caller waits for.
                if (error.code().equals("ended") && params.containsKey("ended")) {
                    return null;
                }
                // Another supervisor has taken over the timeline, and the request has changed nothing.
                if (!error.code().equals("moved")) {
                    throw error;
                }
            }
        }
    }
}
