package io.eigentime;

import java.util.List;

/**
 * The clocks of a timeline and its members.
 *
 * @param name its name
 * @param state {@code running}, {@code frozen} or {@code wall frozen}
 * @param rate virtual seconds per host second, even while frozen
 * @param joinable whether containers may join it
 * @param members the processes on it
 */
public record State(String name, String state, double rate, boolean joinable, List<Member> members) {
    /**
     * A process on a timeline.
     *
     * @param pid the process
     * @param command its program, with the arguments
     * @param threads its threads
     */
    public record Member(long pid, String command, List<Thread> threads) {}

    /**
     * A thread of a member.
     *
     * @param tid the thread
     * @param call the system call in which it waits; null if it runs
     */
    public record Thread(long tid, String call) {}
}
