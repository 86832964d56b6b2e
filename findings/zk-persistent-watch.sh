#!/usr/bin/env bash
# ZooKeeper 3.9.6 (Debian forky), server and Java client: a persistent watch is not told of what changed while
# its client was disconnected, in the same session. A one-time watch is.
#
# Guess:  the documentation says that when a client reconnects, watches are registered again and triggered if
#         needed, and that the guarantees of persistent watches are those of standard ones. So each of the three
#         watches is told of the change, as a persistent one is of later changes.
# Seen:   only the one-time watch is told. The two persistent ones are registered again, and tell of the next
#         change, so a cache that is fed by them alone is wrong in silence until then.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack forky 3.9.6
compile "$home/*:$home/lib/*" <<'JAVA'
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.SynchronousQueue;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

public class Program {
    static final ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
    static final List<String> paths = List.of("/once", "/persistent", "/recursive/node");
    static volatile int connections;

    static void note(WatchedEvent event) {
        if (event.getType() != EventType.None) {
            seen.add(event.getType() + " " + event.getPath());
        }
    }

    static ZooKeeper connect(String server) throws Exception {
        ZooKeeper zk = new ZooKeeper(server, 60_000, event -> {
            if (event.getType() == EventType.None && event.getState() == KeeperState.SyncConnected) {
                connections++;
            }
        });
        while (connections == 0) {
            Thread.sleep(50);
        }
        return zk;
    }

    // tell waits for the client's events, which come before the reply to a read, and prints them.
    static void tell(String when, ZooKeeper zk) throws Exception {
        zk.exists("/", false);
        Thread.sleep(2_000); // and for the thread that passes them on
        System.out.println(when + seen);
        seen.clear();
    }

    public static void main(String[] args) throws Exception {
        ZooKeeper zk = connect(args[0]);
        if (args.length > 1) { // another client
            for (String path : paths) {
                zk.setData(path, args[1].getBytes(), -1);
            }
            System.exit(0);
        }
        zk.create("/recursive", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        for (String path : paths) {
            zk.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        }
        zk.getData("/once", Program::note, null);
        zk.addWatch("/persistent", Program::note, AddWatchMode.PERSISTENT);
        zk.addWatch("/recursive", Program::note, AddWatchMode.PERSISTENT_RECURSIVE);
        long session = zk.getSessionId();
        System.out.println("watches");
        while (connections < 2) {
            Thread.sleep(50);
        }
        tell("told on reconnection, in the same session " + (zk.getSessionId() == session) + ": ", zk);
        for (String path : paths) {
            zk.setData(path, "again".getBytes(), -1);
        }
        tell("told of the next change: ", zk);
        System.exit(0);
    }
}
JAVA
configure maxSessionTimeout=60000
start
follow "127.0.0.1:$port"
[[ $(hear) == watches ]] || cannot "the program sets no watches"
stop
meanwhile changed
got=$(hear 2)
expect 'told on reconnection, in the same session true: [NodeDataChanged /once]
told of the next change: [NodeDataChanged /persistent, NodeDataChanged /recursive/node]' "$got"
