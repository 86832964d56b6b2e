#!/usr/bin/env bash
# ZooKeeper's Java client 3.9.6 (Debian forky), connected below a path of the servers (host:port/app): the paths
# that a transaction and getEphemerals return cannot be used with the same client.
#
# Guess:  a client below /app sees no /app: each path that it is given, it can hand back, as that of create.
# Seen:   a transaction returns /app/node-0000000001 for its create of /node-. delete of that path says "no node",
#         which a client that releases a lock takes for "released"; the node stays as long as its session.
#         getEphemerals() returns such paths, too, and getEphemerals("/node") nothing, although both nodes are
#         there: it wants the path with /app.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack forky 3.9.6
compile "$home/*:$home/lib/*" <<'JAVA'
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

public class Program {
    static ZooKeeper connect(String servers) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(servers, 10_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
        return zk;
    }

    public static void main(String[] args) throws Exception {
        connect(args[0]).create("/app", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        ZooKeeper zk = connect(args[0] + "/app");
        CreateMode mode = CreateMode.EPHEMERAL_SEQUENTIAL;
        String alone = zk.create("/node-", null, Ids.OPEN_ACL_UNSAFE, mode);
        OpResult result = zk.multi(List.of(Op.create("/node-", null, Ids.OPEN_ACL_UNSAFE, mode))).get(0);
        String transaction = ((OpResult.CreateResult) result).getPath();
        System.out.println("create: " + alone + "; transaction: " + transaction);
        System.out.println("getEphemerals: " + new TreeSet<>(zk.getEphemerals()) + "; of /node: "
            + zk.getEphemerals("/node") + "; of /app/node: " + zk.getEphemerals("/app/node").size());
        for (String path : new String[] {alone, transaction}) {
            try {
                zk.delete(path, -1);
                System.out.println("delete " + path + ": done");
            } catch (KeeperException err) {
                System.out.println("delete " + path + ": " + err.code());
            }
        }
        System.out.println("left: " + zk.getChildren("/", false));
        System.exit(0);
    }
}
JAVA
configure
start
follow "127.0.0.1:$port"
got=$(hear 5)
expect 'create: /node-0000000000; transaction: /app/node-0000000001
getEphemerals: [/app/node-0000000000, /app/node-0000000001]; of /node: []; of /app/node: 2
delete /node-0000000000: done
delete /app/node-0000000001: NONODE
left: [node-0000000001]' "$got"
