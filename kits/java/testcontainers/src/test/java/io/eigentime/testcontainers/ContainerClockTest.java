package io.eigentime.testcontainers;

import static io.eigentime.Option.date;
import static io.eigentime.Option.joinable;
import static io.eigentime.Option.rate;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.github.dockerjava.api.command.CreateContainerCmd;
import com.github.dockerjava.api.model.HostConfig;
import io.eigentime.Info;
import io.eigentime.Timeline;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.testcontainers.shaded.com.github.dockerjava.core.command.CreateContainerCmdImpl;

class ContainerClockTest {
    private static final Instant START = Instant.parse("2038-01-19T00:00:00Z");
    private static final Info.Join JOIN =
            new Info.Join(List.of(), Map.of("io.eigentime.timeline", "shop"), Map.of("EIGENTIME_TIMELINE", "shop"));

    private static CreateContainerCmd container() {
        return new CreateContainerCmdImpl(command -> null, null, "postgres")
                .withEnv("PGDATA=/data")
                .withHostConfig(
                        new HostConfig().withAnnotations(Map.of("other", "yes")).withPrivileged(true));
    }

    @Test
    void theEngineIsTold() {
        CreateContainerCmd container = container();
        ContainerClock.join(container, JOIN, "1.100");
        HostConfig host = container.getHostConfig();
        assertEquals("eigentime", host.getRuntime());
        assertEquals(Map.of("other", "yes", "io.eigentime.timeline", "shop"), host.getAnnotations());
        assertEquals(true, host.getPrivileged());
        assertEquals(List.of("PGDATA=/data"), List.of(container.getEnv()));
    }

    @Test
    void anEngineThatPassesNoAnnotations() {
        CreateContainerCmd container = container();
        ContainerClock.join(container, JOIN, "1.43");
        assertEquals("eigentime", container.getHostConfig().getRuntime());
        assertEquals(List.of("PGDATA=/data", "EIGENTIME_TIMELINE=shop"), List.of(container.getEnv()));
    }

    @Test
    void aContainerOfWhichNothingElseIsSaid() {
        CreateContainerCmd container = new CreateContainerCmdImpl(command -> null, null, "postgres");
        container.withHostConfig(null);
        assertNull(container.getEnv());
        ContainerClock.join(container, JOIN, "1.44");
        assertEquals(JOIN.annotations(), container.getHostConfig().getAnnotations());
        ContainerClock.join(container, JOIN, "1.41");
        assertEquals(List.of("EIGENTIME_TIMELINE=shop"), List.of(container.getEnv()));
    }

    @Test
    void aTimelineThatContainersMayNotJoin() {
        try (var timeline = Timeline.create()) {
            var clock = new ContainerClock(timeline);
            var error = assertThrows(IllegalArgumentException.class, () -> clock.accept(container()));
            assertTrue(error.getMessage().contains("Option.joinable()"), error.getMessage());
        }
    }

    @Test
    void itIsPinnedAndResumed() {
        try (var timeline = Timeline.create(date("2020-02-29"), rate(60), joinable())) {
            var clock = new ContainerClock(timeline);
            clock.pin(START);
            assertEquals(START, timeline.now());
            clock.leap(Duration.ofDays(30));
            Instant later = START.plus(Duration.ofDays(30));
            assertEquals(later, timeline.now());
            clock.pin(START);
            assertEquals(START, timeline.now());
            clock.resume();
            assertEquals("running", timeline.show().state());
            assertEquals(60, timeline.show().rate());
            assertTrue(timeline.now().isAfter(START));
            clock.reset();
            assertEquals(1, timeline.show().rate());
            Duration ahead = Duration.between(Instant.now(), timeline.now()).abs();
            assertTrue(ahead.compareTo(Duration.ofMinutes(10)) < 0, ahead::toString);
        }
    }

    @Test
    void itIsResetWhilePinned() {
        try (var timeline = Timeline.create(joinable())) {
            var clock = new ContainerClock(timeline);
            clock.pin(START);
            clock.reset();
            assertEquals("running", timeline.show().state());
            assertTrue(timeline.now().isBefore(START));
        }
    }
}
