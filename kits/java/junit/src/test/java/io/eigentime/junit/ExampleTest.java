package io.eigentime.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.eigentime.Timeline;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** The example in README.md. */
class ExampleTest {
    @Test
    @OnTimeline(date = "2038-01-19")
    void tokenExpires(Timeline timeline) throws Exception {
        var valid = timeline.command("sh", "-c", "test $(date +%s) -lt $(date -d 2038-02-18 +%s)");
        assertEquals(0, valid.start().waitFor());
        timeline.leap(Duration.ofDays(30));
        assertNotEquals(0, valid.start().waitFor());
    }

    @Test
    void itIsTheSameThere() throws Exception {
        String[] parts = Files.readString(Path.of("../README.md")).split("```java\n|```\n");
        String source = Files.readString(Path.of("src/test/java/io/eigentime/junit/ExampleTest.java"));
        assertTrue(source.contains("\n" + parts[1].indent(4)), parts[1]);
    }
}
