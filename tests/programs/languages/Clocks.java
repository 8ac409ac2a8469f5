import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Waits by the usual means of Java; {@code Clocks MS} makes every wait last MS milliseconds. */
public class Clocks {
    interface Wait {
        void run() throws Exception;
    }

    /** Prints when a wait starts and ends, and how long it took on both clocks. */
    static void measure(String name, long wantedMillis, Wait wait) throws Exception {
        System.out.println(name + " begin");
        long start = System.nanoTime();
        long wall = System.currentTimeMillis();
        wait.run();
        double mono = (System.nanoTime() - start) / 1e6;
        System.out.printf("%s end wanted_ms=%d mono_ms=%.3f wall_ms=%d%n", name, wantedMillis, mono,
                System.currentTimeMillis() - wall);
    }

    /** Enough garbage for several collections, whose threads use timed waits. */
    static void makeGarbage() {
        byte[][] kept = new byte[64][];
        for (int i = 0; i < 20_000; i++) {
            kept[i % kept.length] = new byte[16 * 1024];
        }
    }

    public static void main(String[] arguments) throws Exception {
        long millis = Long.parseLong(arguments[0]);
        System.out.println("date=" + System.currentTimeMillis() / 1000);
        // Loads the classes first, so that no wait includes that.
        System.out.printf("warm %.3f%n", 1.0);
        measure("sleep", millis, () -> Thread.sleep(millis));
        measure("object_wait", millis, () -> {
            Object monitor = new Object();
            synchronized (monitor) {
                monitor.wait(millis);
            }
        });
        measure("latch", millis, () -> new CountDownLatch(1).await(millis, TimeUnit.MILLISECONDS));
        measure("park", millis, () -> {
            long until = System.nanoTime() + millis * 1_000_000;
            while (System.nanoTime() < until) {
                LockSupport.parkNanos(until - System.nanoTime());
            }
        });
        ScheduledExecutorService executor = Executors.newScheduledThreadPool(2);
        measure("scheduler", millis, () -> {
            CountDownLatch ticks = new CountDownLatch(4);
            executor.scheduleAtFixedRate(ticks::countDown, millis / 4, millis / 4, TimeUnit.MILLISECONDS);
            ticks.await();
        });
        executor.shutdownNow();
        makeGarbage();
        measure("sleep_after_gc", millis, () -> Thread.sleep(millis));
    }
}
