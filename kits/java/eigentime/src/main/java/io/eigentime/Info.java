package io.eigentime;

import java.util.List;
import java.util.Map;

/**
 * What a timeline says of itself.
 *
 * @param name its name
 * @param protocol the version of the protocol
 * @param version the version of its supervisor
 * @param supervisor the process that keeps it
 * @param join by which programs and containers join
 */
public record Info(String name, int protocol, String version, long supervisor, Join join) {
    /**
     * By which programs and containers join.
     *
     * @param command the beginning of a program's command line
     * @param annotations of a container
     * @param environment of a container whose engine passes no annotations; null if its command is of a version that knows none
     */
    public record Join(List<String> command, Map<String, String> annotations, Map<String, String> environment) {}
}
