#!/usr/bin/env bash
# ZooKeeper's own lock recipe, WriteLock of zookeeper-recipes-lock 3.8.0 (Debian bookworm): the second of two
# locks on one ZooKeeper handle waits outside the queue: it is not told that the lock is free.
#
# Guess:  each object is a request of its own, as two threads need, so the second waits for the first; or, as
#         both are of one session, both are the owner.
# Seen:   the second finds the first one's node by the session's number, takes it for its own, and makes none.
#         Another client that came later gets the lock before it. Then the lock is free, but the second does not
#         hear of it, and the other client gets it once more. The second's unlock(), by which it would stop to
#         wait, throws IllegalArgumentException: it has kept the node's name without its path.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
debian bookworm libzookeeper-java=3.8.0-11+deb12u2
compile "$home/*:$home/lib/*:$work/root/usr/share/java/zookeeper-recipes-lock.jar" <<'JAVA'
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.WriteLock;

public class Program {
    static WriteLock first, second, other;
    static ZooKeeper zk;

    static ZooKeeper connect(String server) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(server, 10_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
        return zk;
    }

    static void tell(String what) throws Exception {
        Thread.sleep(3_000); // for what a watch begins
        System.out.println(what + ": owners: first " + first.isOwner() + ", second " + second.isOwner() + ", other "
            + other.isOwner() + "; nodes: " + zk.getChildren("/lock", false).size());
    }

    public static void main(String[] args) throws Exception {
        zk = connect(args[0]);
        first = new WriteLock(zk, "/lock", null);
        second = new WriteLock(zk, "/lock", null);
        other = new WriteLock(connect(args[0]), "/lock", null);
        first.lock();
        second.lock();
        other.lock();
        tell("all three want it");
        first.unlock();
        tell("the first unlocks");
        other.unlock();
        tell("the other unlocks");
        System.out.println("the other's lock(): " + other.lock());
        System.out.println("the second's lock(): " + second.lock());
        try {
            second.unlock();
            System.out.println("its unlock(): done");
        } catch (RuntimeException err) {
            System.out.println("its unlock(): " + err.getClass().getSimpleName());
        }
        System.exit(0);
    }
}
JAVA
configure
start
follow "127.0.0.1:$port"
got=$(hear 6)
expect 'all three want it: owners: first true, second false, other false; nodes: 2
the first unlocks: owners: first false, second false, other true; nodes: 1
the other unlocks: owners: first false, second false, other false; nodes: 0
the other'\''s lock(): true
the second'\''s lock(): false
its unlock(): IllegalArgumentException' "$got"
