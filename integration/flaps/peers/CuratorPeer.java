import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Takes Curator's InterProcessMutex as the lines on standard input say; see peer.go. */
public final class CuratorPeer {
    private static String path;
    private static int sessionTimeoutMs;

    public static void main(String[] args) throws Exception {
        path = args[0];
        sessionTimeoutMs = Integer.parseInt(args[1]);
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

    /** One client. An InterProcessMutex belongs to the thread that takes it: each client has one. */
    private static final class Client {
        private final String name;
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private CuratorFramework curator;
        private volatile InterProcessMutex mutex;

        Client(String name) {
            this.name = name;
        }

        void order(String[] words) {
            switch (words[1]) {
                case "open" -> answer("open", () -> open(words[2]));
                case "lock" -> answer("lock", this::lock);
                case "unlock" -> answer("unlock", this::unlock);
                case "held" -> say(name, "held", mutex.isAcquiredInThisProcess() ? "yes" : "no");
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

        private String open(String server) throws Exception {
            curator = CuratorFrameworkFactory.builder()
                    .connectString(server)
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
            mutex = new InterProcessMutex(curator, path);
            return curator.blockUntilConnected(30, TimeUnit.SECONDS) ? "ok" : "not connected";
        }

        private String lock() throws Exception {
            mutex.acquire();
            return "ok";
        }

        private String unlock() throws Exception {
            mutex.release();
            return "ok";
        }
    }
}
