#!/usr/bin/env bash
# Curator 5.4.0 (Debian bookworm), on ZooKeeper 3.8.0: after an outage of ZooKeeper that is longer than the
# session timeout, two LeaderLatches lead, and go on to do so.
#
# Guess:  both latches lose leadership during the outage. After it one of them leads; if the old leader's node
#         is still there, then both lead at most until its session has expired.
# Seen:   Curator gives the old leader a new session, but the restarted server keeps the old one for another
#         session timeout. The latch finds its old node in front and leads again; when that node goes with the
#         old session, it does not notice. The other latch does, makes a new node and leads, too. Three session
#         timeouts later both have hasLeadership() true, although one has no node.
#         This is CURATOR-696, mended in 5.7.0.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
compile_curator <<'JAVA'
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Program {
    static final int TIMEOUT = 10_000;
    static final CountDownLatch lost = new CountDownLatch(2), back = new CountDownLatch(2);

    static LeaderLatch latch(String server, CuratorFramework client) throws Exception {
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.LOST) {
                lost.countDown();
            } else if (state == ConnectionState.RECONNECTED) {
                back.countDown();
            }
        });
        client.start();
        LeaderLatch latch = new LeaderLatch(client, "/latch");
        latch.start();
        return latch;
    }

    static void tell(String when, CuratorFramework client, LeaderLatch... latches) throws Exception {
        StringBuilder line = new StringBuilder(when);
        for (LeaderLatch l : latches) {
            boolean node = l.getOurPath() != null && client.checkExists().forPath(l.getOurPath()) != null;
            line.append(l.hasLeadership() ? " leads" : " follows").append(node ? " with" : " without").append(" a node;");
        }
        System.out.println(line);
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework[] clients = new CuratorFramework[2];
        for (int i = 0; i < 2; i++) {
            clients[i] = CuratorFrameworkFactory.newClient(args[0], TIMEOUT, 5_000, new ExponentialBackoffRetry(500, 3));
        }
        LeaderLatch first = latch(args[0], clients[0]);
        first.await();
        LeaderLatch second = latch(args[0], clients[1]);
        while (second.getParticipants().size() < 2) {
            Thread.sleep(100);
        }
        tell("before:", clients[1], first, second);
        lost.await();
        System.out.println("lost");
        back.await();
        second.await(3 * TIMEOUT, TimeUnit.MILLISECONDS);
        Thread.sleep(3 * TIMEOUT);
        tell("after:", clients[1], first, second);
        System.exit(0);
    }
}
JAVA
configure maxSessionTimeout=10000
start
follow "127.0.0.1:$port"
got=$(hear)
stop
[[ $(hear) == lost ]] || cannot "the clients did not notice the outage"
start
got+=$'\n'$(hear)
expect 'before: leads with a node; follows with a node;
after: leads without a node; leads with a node;' "$got"
