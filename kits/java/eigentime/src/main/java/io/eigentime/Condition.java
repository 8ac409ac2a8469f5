package io.eigentime;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** What {@link Timeline#waitFor} waits for. */
public final class Condition {
    final Map<String, Object> params;

    private Condition(String name, Object value) {
        params = Map.of(name, value);
    }

    private record Blocked(Long pid, String call) {}

    /**
     * When the wall clock shows an instant or a later one.
     *
     * @param instant the instant
     * @return the condition
     */
    public static Condition until(Instant instant) {
        return new Condition("until", instant.toString());
    }

    /**
     * When a span of virtual time, starting now, has passed.
     *
     * @param span the span
     * @return the condition
     */
    public static Condition elapsed(Duration span) {
        return new Condition("for", Connection.text(span));
    }

    /** {@return when there are members and all their threads wait, for instance once a server has started} */
    public static Condition idle() {
        return new Condition("idle", true);
    }

    /** {@return when a thread of any member waits in a system call} */
    public static Condition blocked() {
        return new Condition("blocked", new Blocked(null, null));
    }

    /**
     * When a thread of any member waits in a system call.
     *
     * @param call its name, such as {@code accept4}
     * @return the condition
     */
    public static Condition blockedIn(String call) {
        return new Condition("blocked", new Blocked(null, call));
    }

    /**
     * When a thread of a process waits in a system call.
     *
     * @param pid the process
     * @param call the name of the call; null for any
     * @return the condition
     */
    public static Condition blockedIn(long pid, String call) {
        return new Condition("blocked", new Blocked(pid, call));
    }

    /**
     * When a process has started its program on the timeline, or has ended.
     *
     * @param pid the process
     * @return the condition
     */
    public static Condition joined(long pid) {
        return new Condition("joined", pid);
    }

    /** {@return when all leaps that {@link Timeline#skip()} allowed have been made} */
    public static Condition skipped() {
        return new Condition("skipped", true);
    }

    /** {@return when the timeline has no members} */
    public static Condition empty() {
        return new Condition("empty", true);
    }

    /** {@return when the timeline has ended} */
    public static Condition ended() {
        return new Condition("ended", true);
    }
}
