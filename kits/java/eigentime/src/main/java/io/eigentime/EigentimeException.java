package io.eigentime;

/** Why a timeline, or the command that makes it, did not do as asked. */
public final class EigentimeException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What went wrong. */
    private final String code;

    /** How to fix it. */
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
     * Returns what went wrong, for programs.
     *
     * @return a code of the protocol; or {@code command} if the command {@code eigentime} is missing or has failed,
     *     {@code connection} if there is no such timeline or the thread was interrupted, and {@code silent} if the
     *     timeline has not answered within a minute
     */
    public String code() {
        return code;
    }

    /** {@return how to fix it, or null; also the last line of the message} */
    public String help() {
        return help;
    }
}
