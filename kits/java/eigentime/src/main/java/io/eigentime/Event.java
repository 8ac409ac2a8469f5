package io.eigentime;

import com.google.gson.annotations.SerializedName;
import java.time.Duration;
import java.time.Instant;

/**
 * Something that has happened on a timeline. Which components have a value depends on the kind; see "Events"
 * in {@code docs/guide/control.md}. Ignore unknown kinds: later versions have more.
 *
 * @param kind {@code joined}, {@code ended}, {@code changed}, {@code skipped}, {@code notice}, {@code lost}, {@code
 *     removed} or {@code moved}
 * @param pid of {@code joined}, {@code ended} and {@code notice}
 * @param command of {@code joined}
 * @param state of {@code changed}
 * @param rate of {@code changed}
 * @param span of {@code skipped}
 * @param text of {@code notice}
 * @param count of {@code lost}
 * @param host when it happened, on the host's wall clock
 * @param virtual when it happened, on the timeline's
 */
public record Event(
        @SerializedName("event") String kind,
        long pid,
        String command,
        String state,
        double rate,
        @SerializedName("span_ns") Duration span,
        String text,
        long count,
        @SerializedName("host_ns") Instant host,
        @SerializedName("virtual_ns") Instant virtual) {}
