import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.eigentime.Timeline;
import io.eigentime.junit.OnTimeline;
import io.eigentime.testcontainers.ContainerClock;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;

/** What a container sees of its clock. */
class ClockTest {
    private static final Instant LEAP_DAY = Instant.parse("2040-02-29T00:00:00Z");

    @Test
    @OnTimeline(joinable = true)
    void itIsPinnedAndReset(Timeline timeline) throws Exception {
        var clock = new ContainerClock(timeline);
        try (var container = new GenericContainer<>("postgres").withCommand("sleep", "1000d")) {
            container.withCreateContainerCmdModifier(clock).start();
            clock.pin(LEAP_DAY);
            assertEquals(LEAP_DAY, shown(container));
            clock.leap(Duration.ofDays(1));
            assertEquals(LEAP_DAY.plus(Duration.ofDays(1)), shown(container));
            clock.resume();
            assertNotEquals(LEAP_DAY.plus(Duration.ofDays(1)), shown(container));
            clock.reset();
            assertEquals(0, ChronoUnit.HOURS.between(shown(container), Instant.now()));
        }
    }

    private static Instant shown(GenericContainer<?> container) throws Exception {
        return Instant.parse(container
                .execInContainer("date", "-u", "+%FT%T.%NZ")
                .getStdout()
                .strip());
    }
}
