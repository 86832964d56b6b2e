#!/usr/bin/env bash
# Curator 5.4.0 (Debian bookworm), SharedCount, on ZooKeeper 3.8.0: once its node was deleted and made anew, a
# SharedCount goes on to report the old count, although its own setCount succeeds.
#
# Guess:  a SharedCount that runs is told of the deletion and looks again, at the latest when it writes itself:
#         after setCount(7), getCount() is 7, as for each other client.
# Seen:   getCount() stays what it was, after setCount(7), after another client's change, and after a restart of
#         the server: a value counts only if its node's version is above the highest that was seen, and versions
#         begin again with the new node. trySetCount returns false. So a semaphore whose number of permits is such
#         a count has the old number in one process, and the new one in others.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
compile_curator <<'JAVA'
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Program {
    static final CountDownLatch back = new CountDownLatch(2);

    static CuratorFramework client(String server) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(server, 10_000, 5_000, new ExponentialBackoffRetry(500, 5));
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.RECONNECTED) {
                back.countDown();
            }
        });
        client.start();
        return client;
    }

    static SharedCount count(CuratorFramework client, int seed) throws Exception {
        SharedCount count = new SharedCount(client, "/permits", seed);
        count.start();
        return count;
    }

    static void tell(String when, SharedCount a, SharedCount b, CuratorFramework client) throws Exception {
        Thread.sleep(3_000); // for what watches begin
        int stored = java.nio.ByteBuffer.wrap(client.getData().forPath("/permits")).getInt();
        System.out.println(when + ": counts " + a.getCount() + " and " + b.getCount() + ", stored " + stored);
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework one = client(args[0]), two = client(args[0]);
        SharedCount a = count(one, 1);
        for (int n = 2; n <= 5; n++) {
            a.setCount(n);
        }
        one.delete().forPath("/permits");
        SharedCount b = count(two, 3);
        tell("deleted and made anew", a, b, one);
        a.setCount(7);
        tell("the first sets 7", a, b, one);
        b.setCount(8);
        tell("the second sets 8", a, b, one);
        System.out.println("the first's trySetCount(9): " + a.trySetCount(a.getVersionedValue(), 9));
        System.out.println("restart");
        back.await();
        tell("connected again", a, b, one);
        System.exit(0);
    }
}
JAVA
configure
start
follow "127.0.0.1:$port"
got=$(hear 4)
[[ $(hear) == restart ]] || cannot "the program does not go on"
stop
start
got+=$'\n'$(hear)
expect 'deleted and made anew: counts 5 and 3, stored 3
the first sets 7: counts 5 and 7, stored 7
the second sets 8: counts 5 and 8, stored 8
the first'\''s trySetCount(9): false
connected again: counts 5 and 8, stored 8' "$got"
