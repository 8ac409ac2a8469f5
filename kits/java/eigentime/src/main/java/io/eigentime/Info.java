package io.eigentime;

import java.util.List;
import java.util.Map;

/**
 * A description of a timeline.
 *
 * @param name its name
 * @param protocol the version of the protocol
 * @param version the version of its supervisor
 * @param supervisor the process ID of its supervisor
 * @param join how programs and containers join
 */
public record Info(String name, int protocol, String version, long supervisor, Join join) {
    /**
     * How programs and containers join.
     *
     * @param command the beginning of a program's command line
     * @param annotations of a container
     * @param environment of a container whose engine passes no annotations; null if its command is too old to know any
     */
    public record Join(List<String> command, Map<String, String> annotations, Map<String, String> environment) {}
}
