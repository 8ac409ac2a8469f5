// Events that are a unit of seconds apart, in the order in which they come.
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

public class Idle {
    private static int ticks = 0;

    private static synchronized void say(String what) {
        System.out.println(what);
    }

    public static void main(String[] arguments) throws InterruptedException {
        long unit = Long.parseLong(arguments[0]) * 1000;
        long begin = System.nanoTime();
        CountDownLatch left = new CountDownLatch(24);
        var executor = Executors.newScheduledThreadPool(2);
        executor.scheduleAtFixedRate(() -> {
            ticks++;
            say("tick " + ticks);
            left.countDown();
        }, unit, unit, TimeUnit.MILLISECONDS);
        executor.schedule(() -> say("timer"), unit * 3 / 2, TimeUnit.MILLISECONDS);
        executor.schedule(() -> say("deadline"), unit * 11 / 2, TimeUnit.MILLISECONDS);
        left.await();
        executor.shutdownNow();
        System.out.println("passed=" + (System.nanoTime() - begin) / 1e9);
    }
}
