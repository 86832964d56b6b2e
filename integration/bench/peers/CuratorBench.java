import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Measures Curator's InterProcessMutex as the lines on standard input say; see process.go. */
public final class CuratorBench {
    private static final List<CuratorFramework> clients = new ArrayList<>();
    private static final List<InterProcessMutex> locks = new ArrayList<>();
    private static final List<ExecutorService> threads = new ArrayList<>(); // a mutex belongs to its thread

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = switch (words[0]) {
                    case "open" -> open(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
                    case "free" -> free(Integer.parseInt(words[1]));
                    case "handoff" -> new Turns(Long.parseLong(words[1]), Long.parseLong(words[2])).run();
                    case "close" -> close();
                    default -> throw new IllegalArgumentException(words[0]);
                };
            } catch (Exception e) {
                answer = "failed " + e.toString().replaceAll("\\s+", " ");
            }
            System.out.println(answer);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0); // whatever its threads wait for
    }

    private static String open(String server, String path, int count, int timeoutMs) throws Exception {
        for (int i = 0; i < count; i++) {
            CuratorFramework curator = CuratorFrameworkFactory.builder()
                    .connectString(server)
                    .sessionTimeoutMs(timeoutMs)
                    .connectionTimeoutMs(timeoutMs)
                    .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                    .build();
            curator.start();
            if (!curator.blockUntilConnected(timeoutMs, TimeUnit.MILLISECONDS)) {
                return "failed not connected";
            }
            clients.add(curator);
            locks.add(new InterProcessMutex(curator, path));
            threads.add(Executors.newSingleThreadExecutor());
        }
        return "ok";
    }

    private static String close() {
        clients.forEach(CuratorFramework::close);
        return "ok";
    }

    private static String free(int cycles) throws Exception {
        InterProcessMutex lock = locks.get(0);
        StringBuilder times = new StringBuilder("ok");
        for (int i = 0; i < cycles; i++) {
            long start = System.nanoTime();
            lock.acquire();
            lock.release();
            times.append(' ').append(System.nanoTime() - start);
        }
        return times.toString();
    }

    /** What the clients of a handoff share. */
    private static final class Turns {
        private final long holdNanos;
        private final long windowNanos;
        private final StringBuilder latencies = new StringBuilder();
        private int missing = locks.size(); // turns until all queue
        private int turns;
        private boolean inside;
        private boolean stopped;
        private long begin;
        private long end;
        private long unlocked;

        Turns(long holdNanos, long windowNanos) {
            this.holdNanos = holdNanos;
            this.windowNanos = windowNanos;
        }

        String run() throws Exception {
            List<Future<Void>> all = new ArrayList<>();
            for (int i = 0; i < locks.size(); i++) {
                InterProcessMutex lock = locks.get(i);
                all.add(threads.get(i).submit((Callable<Void>) () -> play(lock)));
            }
            for (Future<Void> one : all) {
                one.get();
            }
            return "ok " + turns + " " + (end - begin) + latencies;
        }

        private Void play(InterProcessMutex lock) throws Exception {
            for (boolean last = false; !last; ) {
                lock.acquire();
                last = enter(System.nanoTime());
                if (holdNanos > 0) {
                    TimeUnit.NANOSECONDS.sleep(holdNanos);
                }
                leave(System.nanoTime());
                lock.release();
            }
            return null;
        }

        private synchronized boolean enter(long now) {
            if (inside) {
                throw new IllegalStateException("two hold the lock at once");
            }
            inside = true;
            turns++;
            if (begin != 0 && !stopped) {
                latencies.append(' ').append(now - unlocked);
                if (now - begin >= windowNanos) {
                    stopped = true;
                    end = now;
                }
            }
            if (--missing == 0) {
                begin = now;
            }
            return stopped;
        }

        private synchronized void leave(long now) {
            inside = false;
            unlocked = now;
        }
    }
}
