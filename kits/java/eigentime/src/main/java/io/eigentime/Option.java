package io.eigentime;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** Configures how {@link Timeline#create} makes a timeline. */
public sealed class Option {
    private final Consumer<Creation> change;

    Option(Consumer<Creation> change) {
        this.change = change;
    }

    /** What is needed to make a timeline. */
    static final class Creation {
        List<String> operands = List.of();
        String saved = "";
        final List<String> arguments = new ArrayList<>();

        Creation(Option... options) {
            List.of(options).forEach(option -> option.change.accept(this));
        }
    }

    /**
     * Gives the timeline a name under which {@code eigentime ctl}, other programs and containers find it. Without it,
     * a timeline has its own runtime directory, so that parallel tests never meet.
     *
     * @param name the name
     * @return the option
     */
    public static Option name(String name) {
        return new Option(creation -> creation.operands = List.of("--", name));
    }

    /**
     * Lets containers join the timeline. Their engine then finds it under the given name, or else under a unique
     * one.
     *
     * @return the option
     */
    public static Option joinable() {
        return arguments("--joinable");
    }

    /**
     * Resumes a saved timeline.
     *
     * @param saved what {@link Timeline#save} returned
     * @return the option
     */
    public static Option continuing(String saved) {
        return new Option(creation -> {
            creation.saved = saved + "\n\n"; // An empty line terminates a truncated document.
            creation.arguments.addAll(List.of("--continue", "-"));
        });
    }

    /** {@return an option that lets the clocks leap to the next deadline whenever all programs wait} */
    public static Option skipIdle() {
        return arguments("--skip-idle");
    }

    /** {@return {@link #skipIdle()}, but the clocks leap only when {@link Timeline#skip()} allows it} */
    public static Option skipWhenTold() {
        return arguments("--skip-idle", "--skips", "0");
    }

    /** {@return an option that freezes the clocks until {@link Timeline#thaw()}} */
    public static Option frozen() {
        return arguments("--freeze");
    }

    /**
     * Further options of {@code eigentime ctl create}.
     *
     * @param arguments as on the command line
     * @return the option
     */
    public static Option arguments(String... arguments) {
        return new Option(creation -> creation.arguments.addAll(List.of(arguments)));
    }

    /**
     * The date that the wall clock shows.
     *
     * @param date such as {@code 2038-01-19} or {@code 2038-01-19T03:14:07Z}; without a zone, in local time
     * @return the setting
     */
    public static Setting date(String date) {
        return new Setting("date", date);
    }

    /**
     * The date that the wall clock shows.
     *
     * @param instant the date
     * @return the setting
     */
    public static Setting date(Instant instant) {
        return date(instant.toString());
    }

    /**
     * How far the wall clock is ahead of the host's.
     *
     * @param offset the span; negative if it is behind
     * @return the setting
     */
    public static Setting offset(Duration offset) {
        return new Setting("offset", Connection.text(offset));
    }

    /**
     * How many seconds pass per host second.
     *
     * @param rate the rate
     * @return the setting
     */
    public static Setting rate(double rate) {
        return new Setting("rate", Double.toString(rate)); // All rates between 0.001 and 1000000 are plain numbers.
    }

    /** A property of a timeline that {@link Timeline#set} can change later. */
    public static final class Setting extends Option {
        final String name;
        final String value; // As on the command line; the protocol takes the same text.

        Setting(String name, String value) {
            super(creation -> creation.arguments.add("--" + name + "=" + value));
            this.name = name;
            this.value = value;
        }
    }
}
