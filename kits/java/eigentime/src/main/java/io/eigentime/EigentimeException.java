package io.eigentime;

/** Why a timeline, or the command that makes it, did not do what it was asked. */
public final class EigentimeException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What went wrong. */
    private final String code;

    /** The way out. */
    private final String help;

    EigentimeException(String code, String message, String help, Throwable cause) {
        super(help == null ? message : message + "\nhelp: " + help, cause);
        this.code = code;
        this.help = help;
    }

    /**
     * Tells programs what went wrong.
     *
     * @return a code of the protocol; or {@code command} if the command {@code eigentime} is missing or has failed, and
     *     {@code connection} if nothing listens for the timeline, or the connection broke
     */
    public String code() {
        return code;
    }

    /** {@return the way out, or null; it is also the last line of the message} */
    public String help() {
        return help;
    }
}
