import static io.eigentime.Condition.idle;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.eigentime.Timeline;
import io.eigentime.junit.OnTimeline;
import io.eigentime.testcontainers.ContainerClock;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.postgresql.PostgreSQLContainer;

@OnTimeline(date = "2038-01-19", joinable = true)
class ShopTest {
    private final Network network = Network.newNetwork();
    private final PostgreSQLContainer database =
            new PostgreSQLContainer("postgres").withNetwork(network).withNetworkAliases("database");
    private final GenericContainer<?> shop = new GenericContainer<>("shop")
            .withNetwork(network)
            .withExposedPorts(8080)
            .waitingFor(Wait.forLogMessage(".*ready.*", 1));

    @Test
    void aMonthPasses(Timeline timeline) throws Exception {
        String token = get("/login").body();
        assertEquals(200, get("/account?token=" + token).statusCode());
        assertEquals("", get("/jobs").body());

        timeline.leap(Duration.ofDays(30));
        timeline.waitFor(idle());

        assertEquals(401, get("/account?token=" + token).statusCode());
        assertEquals("2038-02-18\n", get("/jobs").body());
    }

    @BeforeEach
    void start(Timeline timeline) {
        var clock = new ContainerClock(timeline);
        database.withCreateContainerCmdModifier(clock).start();
        shop.withCreateContainerCmdModifier(clock).start();
    }

    @AfterEach
    void stop() {
        shop.stop();
        database.stop();
        network.close();
    }

    private HttpResponse<String> get(String path) throws IOException, InterruptedException {
        var address = URI.create("http://" + shop.getHost() + ":" + shop.getFirstMappedPort() + path);
        return HttpClient.newHttpClient().send(HttpRequest.newBuilder(address).build(), BodyHandlers.ofString());
    }
}
