import java.time.Instant;
import java.util.Locale;

/** Prints a number, the wall clock and the monotonic clock, ten times a second. */
public class Ticking {
    public static void main(String[] arguments) throws InterruptedException {
        for (long number = 0;; number++) {
            Instant wall = Instant.now();
            double monotonic = System.nanoTime() / 1e9;
            System.out.printf(
                    Locale.ROOT,
                    "%d %d.%09d %.9f%n",
                    number, wall.getEpochSecond(), wall.getNano(), monotonic);
            Thread.sleep(100);
        }
    }
}
