// The same waits repeatedly, in many threads, while code is compiled and discarded.
//
//   Hot THREADS MS
//
// THREADS threads make waits that end by themselves. Meanwhile a class is reloaded and its code
// runs until it is compiled, processes are started, and waiting threads are interrupted. After MS
// milliseconds it prints the same as hot.c, and how often code was made (generated).
import java.io.InputStream;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

public class Hot {
    private static final long WAIT_MS = 3;
    private static final int CALLS = 20_000;

    private static final AtomicLong rounds = new AtomicLong();
    private static final AtomicLong children = new AtomicLong();
    private static final AtomicLong generated = new AtomicLong();
    private static final AtomicLong cancelled = new AtomicLong();
    private static final AtomicLong wrong = new AtomicLong();
    private static final AtomicLong early = new AtomicLong();
    private static final AtomicLong back = new AtomicLong();
    private static volatile boolean over = false;

    /** The class that is compiled anew each time. */
    public static class Sum implements java.util.function.LongUnaryOperator {
        public long applyAsLong(long seed) {
            long sum = seed;
            for (int i = 0; i < 16; i++) {
                sum = sum * 31 + (sum >>> 7) + i;
            }
            return sum;
        }
    }

    private static final class Anew extends ClassLoader {
        Class<?> made(byte[] code) {
            return defineClass(Sum.class.getName(), code, 0, code.length);
        }
    }

    private interface Part {
        void run() throws Exception;
    }

    private static Thread start(Part part) {
        Thread thread = new Thread(() -> {
            try {
                while (!over) {
                    part.run();
                }
            } catch (Exception error) {
                error.printStackTrace();
                wrong.incrementAndGet();
            }
        });
        thread.start();
        return thread;
    }

    private static void check(boolean right) {
        if (!right) {
            wrong.incrementAndGet();
        }
    }

    private static void waited(Part wait) throws Exception {
        long begin = System.nanoTime();
        wait.run();
        if (System.nanoTime() - begin < WAIT_MS * 1_000_000) {
            early.incrementAndGet();
        }
    }

    private static void round() throws Exception {
        var empty = new ArrayBlockingQueue<Integer>(1);
        waited(() -> Thread.sleep(WAIT_MS));
        waited(() -> check(empty.poll(WAIT_MS, TimeUnit.MILLISECONDS) == null));
        LockSupport.parkNanos(WAIT_MS * 1_000_000);
        long before = System.currentTimeMillis();
        if (System.currentTimeMillis() < before) {
            back.incrementAndGet();
        }
        rounds.incrementAndGet();
    }

    private static void generate(byte[] code) throws Exception {
        var made = new Anew().made(code).getDeclaredConstructor().newInstance();
        var anew = (java.util.function.LongUnaryOperator) made;
        var known = new Sum();
        long sum = 0;
        long expected = 0;
        for (int i = 0; i < CALLS; i++) {
            sum = anew.applyAsLong(sum);
            expected = known.applyAsLong(expected);
        }
        check(sum == expected);
        generated.incrementAndGet();
        if (generated.get() % 100 == 0) {
            System.gc();
        }
    }

    private static void makeProcess() throws Exception {
        check(new ProcessBuilder("true").start().waitFor() == 0);
        children.incrementAndGet();
    }

    private static void cancel() throws Exception {
        var interrupted = new boolean[1];
        Thread waits = new Thread(() -> {
            try {
                Thread.sleep(1_000_000);
            } catch (InterruptedException expected) {
                interrupted[0] = true;
            }
        });
        waits.start();
        Thread.sleep(1);
        waits.interrupt();
        waits.join();
        check(interrupted[0]);
        cancelled.incrementAndGet();
    }

    public static void main(String[] arguments) throws Exception {
        int workers = Integer.parseInt(arguments[0]);
        double ms = Double.parseDouble(arguments[1]);
        byte[] code;
        try (InputStream file = Hot.class.getResourceAsStream("Hot$Sum.class")) {
            code = file.readAllBytes();
        }
        long begin = System.nanoTime();
        var threads = new Thread[workers + 3];
        for (int i = 0; i < workers; i++) {
            threads[i] = start(Hot::round);
        }
        threads[workers] = start(() -> generate(code));
        threads[workers + 1] = start(Hot::makeProcess);
        threads[workers + 2] = start(Hot::cancel);
        while (System.nanoTime() - begin < ms * 1e6) {
            Thread.sleep(100);
        }
        over = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("rounds=" + rounds);
        System.out.println("children=" + children);
        System.out.println("generated=" + generated);
        System.out.println("cancelled=" + cancelled);
        System.out.println("wrong=" + wrong);
        System.out.println("early=" + early);
        System.out.println("back=" + back);
        System.out.println("ms=" + (System.nanoTime() - begin) / 1e6);
        System.out.println("done");
    }
}
