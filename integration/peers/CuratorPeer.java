import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Takes Curator's InterProcessMutex or InterProcessReadWriteLock as the lines on standard input say; see peer.go. */
public final class CuratorPeer {
    private static int sessionTimeoutMs;

    public static void main(String[] args) throws Exception {
        sessionTimeoutMs = Integer.parseInt(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Client> clients = new HashMap<>();
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            clients.computeIfAbsent(words[0], Client::new).order(words);
        }
        Runtime.getRuntime().halt(0); // whatever its threads wait for
    }

    private static synchronized void say(String client, String word, Object text) {
        System.out.println(client + " " + word + " " + String.valueOf(text).replaceAll("\\s+", " "));
        System.out.flush();
    }

    /** Orders also those whose names have another library's token before the sequence: else they sort as they come. */
    private static final class Mixed extends StandardLockInternalsDriver {
        private final List<String> tokens;

        Mixed(List<String> tokens) {
            this.tokens = tokens;
        }

        @Override
        public String fixForSorting(String name, String lockName) {
            for (String token : tokens) {
                int at = name.lastIndexOf(token);
                if (at >= 0) {
                    return name.substring(at + token.length());
                }
            }
            return super.fixForSorting(name, lockName);
        }
    }

    /** One client. An InterProcessMutex belongs to the thread that takes it: each client has one. */
    private static final class Client {
        private final String name;
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private CuratorFramework curator;
        private volatile InterProcessMutex mutex; // to lock
        private InterProcessMutex reader; // to read; null: it is no such lock
        private volatile InterProcessMutex taken; // what is to be unlocked

        Client(String name) {
            this.name = name;
        }

        void order(String[] words) {
            switch (words[1]) {
                case "open" -> answer("open", () -> open(words));
                case "lock" -> answer("lock", () -> acquire(mutex));
                case "rlock" -> answer("rlock", () -> acquire(reader));
                case "downgrade" -> answer("downgrade", this::downgrade);
                case "unlock" -> answer("unlock", this::unlock);
                case "held" -> say(name, "held", taken.isAcquiredInThisProcess() ? "yes" : "no");
                default -> throw new IllegalArgumentException(words[1]);
            }
        }

        private void answer(String command, Callable<String> call) {
            thread.execute(() -> {
                String text;
                try {
                    text = call.call();
                } catch (Exception e) { // whatever the library has to say
                    text = e.toString();
                }
                say(name, command, text);
            });
        }

        private String open(String[] words) throws Exception {
            curator = CuratorFrameworkFactory.builder()
                    .connectString(words[2])
                    .sessionTimeoutMs(sessionTimeoutMs)
                    .connectionTimeoutMs(sessionTimeoutMs)
                    .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                    .build();
            curator.getConnectionStateListenable().addListener((client, state) -> {
                if (state == ConnectionState.SUSPENDED) {
                    say(name, "warned", state);
                } else if (state == ConnectionState.LOST) {
                    say(name, "told", state);
                }
            });
            curator.start();
            List<String> tokens = Arrays.stream(words).skip(5).filter(word -> word.matches("[-_].*")).toList();
            if (words[4].equals("rw")) {
                InterProcessReadWriteLock both = new InterProcessReadWriteLock(curator, words[3]);
                mutex = both.writeLock();
                reader = both.readLock();
            } else {
                mutex = new InterProcessMutex(curator, words[3], new Mixed(tokens));
            }
            taken = mutex;
            return curator.blockUntilConnected(30, TimeUnit.SECONDS) ? "ok" : "not connected";
        }

        private String acquire(InterProcessMutex which) throws Exception {
            which.acquire();
            taken = which;
            return "ok";
        }

        private String downgrade() throws Exception {
            acquire(reader);
            mutex.release();
            return "ok";
        }

        private String unlock() throws Exception {
            taken.release();
            return "ok";
        }
    }
}
