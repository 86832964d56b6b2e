#!/usr/bin/env bash
# Curator 5.4.0 (Debian bookworm), InterProcessMutex, on ZooKeeper 3.8.0: the number of a lock's node, which
# grows with each hold, starts again at 0 after a quiet minute.
#
# Guess:  ZooKeeper counts a sequence per parent, so each holder has a higher number than the one before, and the
#         number is a fencing token, as for a parent that is a persistent node.
# Seen:   the third holder has the number 0, below that of the second: Curator makes the parent as a container,
#         which the server deletes once it is empty (looked for each minute; here each half second), and
#         the count goes with it. A resource that refuses lower numbers refuses the new holder, and takes the old.
#         With a parent that was made beforehand the third number is the highest.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
compile_curator <<'JAVA'
import java.util.concurrent.CompletableFuture;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Program {
    static CuratorFramework client;

    // hold has the lock once, and begins another hold before the end of each one but the last.
    static String hold(String path, int times) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        mutex.acquire();
        String name = mutex.getParticipantNodes().iterator().next();
        String number = " " + Integer.parseInt(name.substring(name.length() - 10));
        CompletableFuture<String> next = CompletableFuture.completedFuture("");
        if (times > 1) {
            next = CompletableFuture.supplyAsync(() -> {
                try {
                    return hold(path, times - 1);
                } catch (Exception err) {
                    throw new RuntimeException(err);
                }
            });
            while (mutex.getParticipantNodes().size() < 2) {
                Thread.sleep(10);
            }
        }
        mutex.release();
        return number + next.get();
    }

    public static void main(String[] args) throws Exception {
        client = CuratorFrameworkFactory.newClient(args[0], new ExponentialBackoffRetry(500, 3));
        client.start();
        client.create().forPath("/persistent");
        String numbers = hold("/container", 2), persistent = hold("/persistent", 2);
        for (int i = 0; i < 150 && client.checkExists().forPath("/container") != null; i++) {
            Thread.sleep(100);
        }
        System.out.println("as Curator makes it:" + numbers + hold("/container", 1));
        System.out.println("made beforehand:" + persistent + hold("/persistent", 1));
        System.exit(0);
    }
}
JAVA
configure
start -Dznode.container.checkIntervalMs=500
follow "127.0.0.1:$port"
got=$(hear 2)
expect 'as Curator makes it: 0 1 0
made beforehand: 0 1 2' "$got"
