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

    static EigentimeException ended(Throwable cause) {
        return new EigentimeException("ended", "the timeline has ended", null, cause);
    }

    /**
     * Tells programs what went wrong.
     *
     * @return a code of the protocol; or {@code command} if the command {@code eigentime} is missing or has failed,
     *     {@code connection} if there is no such timeline, or the thread was interrupted, and {@code silent} if the
     *     timeline has not answered within a minute
     */
    public String code() {
        return code;
    }

    /** {@return the way out, or null; it is also the last line of the message} */
    public String help() {
        return help;
    }
}
