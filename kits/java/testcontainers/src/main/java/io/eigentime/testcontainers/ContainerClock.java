package io.eigentime.testcontainers;

import com.github.dockerjava.api.command.CreateContainerCmd;
import com.github.dockerjava.api.model.HostConfig;
import io.eigentime.Info;
import io.eigentime.Option;
import io.eigentime.Timeline;
import java.lang.module.ModuleDescriptor.Version;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import org.testcontainers.DockerClientFactory;

/**
 * The clock of Testcontainers containers: puts them on a timeline, and moves it.
 *
 * <pre>{@code
 * var clock = new ContainerClock(timeline);
 * var database = new GenericContainer<>("postgres:18").withCreateContainerCmdModifier(clock);
 * database.start();
 * clock.leap(Duration.ofDays(30));
 * }</pre>
 *
 * <p>The engine must know the runtime {@code eigentime} ({@code eigentime setup docker}) and run as the user of the
 * test, since a timeline belongs to a user. All containers with this clock share it.
 *
 * @param timeline the timeline, made with {@link Option#joinable}
 */
public record ContainerClock(Timeline timeline) implements Consumer<CreateContainerCmd> {
    /**
     * The first version of Docker's API with which Testcontainers passes annotations: to engines that do not know it,
     * it speaks one without them.
     */
    private static final Version ANNOTATIONS = Version.parse("1.44");

    /** Makes a container on the timeline. Other settings of the container are kept. */
    @Override
    public void accept(CreateContainerCmd container) {
        if (!timeline.show().joinable()) {
            throw new IllegalArgumentException("containers may not join the timeline: make it with Option.joinable()");
        }
        join(container, timeline.info().join(), DockerClientFactory.instance().getActiveApiVersion());
    }

    static void join(CreateContainerCmd container, Info.Join join, String version) {
        HostConfig host = Objects.requireNonNullElseGet(container.getHostConfig(), HostConfig::new);
        container.withHostConfig(host.withRuntime("eigentime"));
        if (Version.parse(version).compareTo(ANNOTATIONS) >= 0) {
            var annotations = new HashMap<>(Objects.requireNonNullElse(host.getAnnotations(), Map.of()));
            annotations.putAll(join.annotations());
            host.withAnnotations(annotations);
        } else {
            var environment = new ArrayList<>(List.of(Objects.requireNonNullElse(container.getEnv(), new String[0])));
            join.environment().forEach((name, value) -> environment.add(name + "=" + value));
            container.withEnv(environment);
        }
    }

    /**
     * Freezes the clock at an instant until {@link #resume}. Waits in the containers continue.
     *
     * @param instant the instant
     */
    public void pin(Instant instant) {
        timeline.freezeWall();
        timeline.set(Option.date(instant));
    }

    /**
     * Moves the clock forward. Waits that expire within the span end.
     *
     * @param span how far
     */
    public void leap(Duration span) {
        timeline.leap(span);
    }

    /** Restarts the clock from where it is frozen. */
    public void resume() {
        timeline.thaw();
    }

    /** Returns the clock to the host's date and rate. */
    public void reset() {
        timeline.thaw();
        timeline.set(Option.offset(Duration.ZERO), Option.rate(1));
    }
}
