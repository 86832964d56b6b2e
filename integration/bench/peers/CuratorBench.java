import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Measures one of Curator's locks, as its arguments say, as the lines on standard input say; see process.go. */
public final class CuratorBench {
    private static final List<CuratorFramework> clients = new ArrayList<>();
    private static final List<Lock> locks = new ArrayList<>();
    private static final List<ExecutorService> threads = new ArrayList<>(); // a mutex belongs to its thread
    private static final String VALUE = "node1:8080"; // of the leader
    private static String kind;
    private static int count; // of permits, or of locks together

    private interface Lock {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    private static Lock lock(CuratorFramework curator, String path) {
        return switch (kind) {
            case "mutex" -> new Mutex(new InterProcessMutex(curator, path));
            case "read" -> new Mutex(new InterProcessReadWriteLock(curator, path).readLock());
            case "multi" -> new Mutex(new InterProcessMultiLock(curator,
                    IntStream.range(0, count).mapToObj(i -> path + "-" + i).toList()));
            case "semaphore" -> new Semaphore(new InterProcessSemaphoreV2(curator, path, count));
            case "latch" -> new Latch(curator, path);
            case "selector" -> new Selector(curator, path);
            default -> throw new IllegalArgumentException(kind);
        };
    }

    private record Mutex(InterProcessLock mutex) implements Lock {
        @Override
        public void acquire() throws Exception {
            mutex.acquire();
        }

        @Override
        public void release() throws Exception {
            mutex.release();
        }
    }

    /** One lease of it; if there is a single one it is a lock. */
    private static final class Semaphore implements Lock {
        private final InterProcessSemaphoreV2 semaphore;
        private Lease lease;

        Semaphore(InterProcessSemaphoreV2 semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        public void acquire() throws Exception {
            lease = semaphore.acquire();
        }

        @Override
        public void release() {
            semaphore.returnLease(lease);
        }
    }

    /** Leadership by a latch, which is good for one. It is left in the background. */
    private static final class Latch implements Lock {
        private final CuratorFramework curator;
        private final String path;
        private LeaderLatch latch;

        Latch(CuratorFramework curator, String path) {
            this.curator = curator;
            this.path = path;
        }

        @Override
        public void acquire() throws Exception {
            latch = new LeaderLatch(curator, path, VALUE);
            latch.start();
            latch.await();
        }

        @Override
        public void release() throws Exception {
            latch.close();
        }
    }

    /** Leadership that a thread of the selector's has, until it is told to give it back. */
    private static final class Selector implements Lock {
        private final java.util.concurrent.Semaphore leads = new java.util.concurrent.Semaphore(0);
        private final java.util.concurrent.Semaphore resigns = new java.util.concurrent.Semaphore(0);
        private final java.util.concurrent.Semaphore over = new java.util.concurrent.Semaphore(0);
        private final LeaderSelector selector;
        private boolean started;

        Selector(CuratorFramework curator, String path) {
            ExecutorService thread = new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>()) {
                @Override
                protected void afterExecute(Runnable task, Throwable thrown) {
                    over.release();
                }
            };
            selector = new LeaderSelector(curator, path, thread, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    leads.release();
                    resigns.acquire();
                }
            });
            selector.setId(VALUE);
        }

        @Override
        public void acquire() throws Exception {
            if (!started) {
                selector.start(); // stands, too
                started = true;
            } else if (!selector.requeue()) {
                throw new IllegalStateException("it stands already");
            }
            leads.acquire();
        }

        @Override
        public void release() throws Exception {
            resigns.release();
            over.acquire();
        }
    }

    public static void main(String[] args) throws Exception {
        kind = args[0];
        count = args.length > 1 ? Integer.parseInt(args[1]) : 1;
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

    private static String open(String servers, String path, int count, int timeoutMs) throws Exception {
        String[] addresses = servers.split(",");
        for (int i = 0; i < count; i++) {
            CuratorFramework curator = CuratorFrameworkFactory.builder()
                    .connectString(addresses[i % addresses.length])
                    .sessionTimeoutMs(timeoutMs)
                    .connectionTimeoutMs(timeoutMs)
                    .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                    .build();
            curator.start();
            if (!curator.blockUntilConnected(timeoutMs, TimeUnit.MILLISECONDS)) {
                return "failed not connected";
            }
            clients.add(curator);
            locks.add(lock(curator, path));
            threads.add(Executors.newSingleThreadExecutor());
        }
        return "ok";
    }

    private static String close() {
        clients.forEach(CuratorFramework::close);
        threads.forEach(ExecutorService::shutdown);
        clients.clear();
        locks.clear();
        threads.clear();
        return "ok";
    }

    private static String free(int cycles) throws Exception {
        Lock lock = locks.get(0);
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
        private int turns; // that were measured
        private int passed; // of these, to another client
        private int last; // the client of the last turn
        private final int room = kind.equals("semaphore") ? count : 1;
        private int inside;
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
                int client = i;
                all.add(threads.get(i).submit((Callable<Void>) () -> play(client)));
            }
            for (Future<Void> one : all) {
                one.get();
            }
            return "ok " + (end - begin) + " " + (double) passed / turns + latencies;
        }

        private Void play(int client) throws Exception {
            Lock lock = locks.get(client);
            for (boolean last = false; !last; ) {
                lock.acquire();
                last = enter(client, System.nanoTime());
                if (holdNanos > 0) {
                    TimeUnit.NANOSECONDS.sleep(holdNanos);
                }
                leave(System.nanoTime());
                lock.release();
            }
            return null;
        }

        private synchronized boolean enter(int client, long now) {
            if (inside >= room) {
                throw new IllegalStateException("more hold the lock at once than may");
            }
            inside++;
            if (begin != 0 && !stopped) {
                turns++;
                passed += client == last ? 0 : 1;
                latencies.append(' ').append(now - unlocked);
                if (now - begin >= windowNanos) {
                    stopped = true;
                    end = now;
                    mark();
                }
            }
            if (--missing == 0) {
                begin = now;
                mark();
            }
            last = client;
            return stopped;
        }

        private static void mark() {
            System.out.println("mark");
            System.out.flush();
        }

        private synchronized void leave(long now) {
            inside--;
            unlocked = now;
        }
    }
}
