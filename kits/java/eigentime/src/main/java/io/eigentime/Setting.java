package io.eigentime;

/** A property of a timeline that {@link Timeline#set} can change later. {@link Option} makes them. */
public final class Setting extends Option {
    final String name;
    final String value; // As on the command line; the protocol takes the same text.

    Setting(String name, String value) {
        super(creation -> creation.arguments.add("--" + name + "=" + value));
        this.name = name;
        this.value = value;
    }
}
