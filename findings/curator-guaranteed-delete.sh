#!/usr/bin/env bash
# Curator 5.4.0 (Debian bookworm), on ZooKeeper 3.8.0: a guaranteed delete of one version of a node, which
# failed because the server was away, later deletes a newer version that another client wrote.
#
# Guess:  delete().guaranteed().withVersion(0) throws "connection loss". Curator goes on trying in the
#         background, as documented, and deletes the node if it is still of version 0; of version 1, it stays.
# Seen:   the node of version 1 is deleted: what is tried again is a delete of the path, without the version.
#         A delete with a version that is not guaranteed fails in the same way, and its node stays.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
compile_curator <<'JAVA'
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

public class Program {
    interface Delete {
        void run() throws Exception;
    }

    static void tell(String what, Delete delete) throws Exception {
        try {
            delete.run();
            System.out.println(what + ": done");
        } catch (KeeperException err) {
            System.out.println(what + ": " + err.code());
        }
    }

    public static void main(String[] args) throws Exception {
        CountDownLatch back = new CountDownLatch(1);
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 60_000, 3_000, new ExponentialBackoffRetry(500, 3));
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.RECONNECTED) {
                back.countDown();
            }
        });
        client.start();
        String[] paths = {"/plain", "/guaranteed"};
        if (args.length > 1) { // another client
            for (String path : paths) {
                client.setData().withVersion(0).forPath(path, args[1].getBytes());
            }
            System.exit(0);
        }
        for (String path : paths) {
            client.create().forPath(path, "mine".getBytes());
        }
        System.out.println("created");
        while (client.getZookeeperClient().isConnected()) {
            Thread.sleep(50);
        }
        tell("delete of version 0", () -> client.delete().withVersion(0).forPath("/plain"));
        tell("guaranteed delete of version 0", () -> client.delete().guaranteed().withVersion(0).forPath("/guaranteed"));
        back.await();
        Thread.sleep(20_000); // for what it does in the background
        for (String path : paths) {
            Stat stat = client.checkExists().forPath(path);
            System.out.println(path + ": " + (stat == null ? "deleted" : "of version " + stat.getVersion()));
        }
        System.exit(0);
    }
}
JAVA
configure maxSessionTimeout=60000
start
follow "127.0.0.1:$port"
[[ $(hear) == created ]] || cannot "the nodes are not created"
stop
got=$(hear 2)
meanwhile theirs
got+=$'\n'$(hear 2)
expect 'delete of version 0: CONNECTIONLOSS
guaranteed delete of version 0: CONNECTIONLOSS
/plain: of version 1
/guaranteed: deleted' "$got"
