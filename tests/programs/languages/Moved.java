import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicLong;

/** Keeps running while it is moved between timelines: see {@code moved.c}. */
public class Moved {
    static final long PAUSE_MILLIS = 20;

    static final AtomicLong back = new AtomicLong();
    static final AtomicLong failed = new AtomicLong();
    static final AtomicLong loops = new AtomicLong();

    static void live() {
        try {
            for (long last = System.nanoTime();; loops.incrementAndGet()) {
                long next = System.nanoTime();
                if (next - last < 0) {
                    back.incrementAndGet();
                }
                last = next;
                Thread.sleep(PAUSE_MILLIS);
            }
        } catch (InterruptedException nobodyInterrupts) {
            failed.incrementAndGet();
        }
    }

    static void measure(String name, long millis) {
        try {
            System.out.println(name + " begin");
            Thread.sleep(millis);
            System.out.println(name + " end");
        } catch (InterruptedException nobodyInterrupts) {
            failed.incrementAndGet();
        }
    }

    static void startChild(String script, long millis) throws Exception {
        String seconds = String.valueOf(millis / 1e3);
        Process child = new ProcessBuilder("sh", script, seconds)
                .redirectOutput(ProcessBuilder.Redirect.INHERIT).start();
        if (child.waitFor() != 0) {
            throw new IllegalStateException("the child failed");
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = Integer.parseInt(arguments[0]); i > 0; i--) {
            Thread thread = new Thread(Moved::live);
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            long millis = Long.parseLong(line);
            System.out.println("date=" + System.currentTimeMillis() / 1e3);
            System.out.println("back=" + back.get());
            System.out.println("failed=" + failed.get());
            System.out.println("loops=" + loops.get());
            measure("old", millis);
            Thread thread = new Thread(() -> measure("new", millis));
            thread.start();
            thread.join();
            startChild(arguments[1], millis);
            System.out.println("done");
        }
        System.exit(7);
    }
}
