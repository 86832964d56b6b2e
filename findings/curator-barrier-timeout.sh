#!/usr/bin/env bash
# Curator 5.4.0 (Debian bookworm), DistributedDoubleBarrier, on ZooKeeper 3.8.0: a member that gave up counts, so
# another one enters a barrier for two alone; and in a second round a timeout of 2 s is not obeyed.
#
# Guess:  enter(2 s) returns false if the others do not come, and the member counts no more. A barrier may be
#         used again once all have left it, and its timeouts are those of the first round.
# Seen:   enter returns false and leaves its node, so the next member's enter returns true, with no other member
#         waiting. In the second round enter(2 s) waits until the other one comes, 10 s later, and returns true:
#         once a watch was told of anything, the object waits without a limit.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
compile_curator <<'JAVA'
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Program {
    static DistributedDoubleBarrier member(String server, String path) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(server, new ExponentialBackoffRetry(500, 3));
        client.start();
        return new DistributedDoubleBarrier(client, path, 2);
    }

    static CompletableFuture<String> enter(DistributedDoubleBarrier member, long seconds) {
        return CompletableFuture.supplyAsync(() -> {
            long began = System.nanoTime();
            try {
                boolean entered = member.enter(seconds, TimeUnit.SECONDS);
                return entered + ((System.nanoTime() - began) / 1e9 > seconds + 5 ? " after more than " + (seconds + 5) + " s" : "");
            } catch (Exception err) {
                return err.toString();
            }
        });
    }

    public static void main(String[] args) throws Exception {
        System.out.println("a member alone: " + enter(member(args[0], "/given-up"), 2).get());
        System.out.println("the next one, when that has given up: " + enter(member(args[0], "/given-up"), 2).get());

        DistributedDoubleBarrier a = member(args[0], "/rounds"), b = member(args[0], "/rounds");
        CompletableFuture<String> first = enter(a, 60), second = enter(b, 60);
        System.out.println("first round: " + first.get() + ", " + second.get());
        CompletableFuture<Boolean> left = CompletableFuture.supplyAsync(() -> {
            try {
                return a.leave(60, TimeUnit.SECONDS);
            } catch (Exception err) {
                throw new RuntimeException(err);
            }
        });
        System.out.println("left: " + b.leave(60, TimeUnit.SECONDS) + ", " + left.get());
        first = enter(a, 2);
        Thread.sleep(10_000);
        second = enter(b, 2);
        System.out.println("second round, with a timeout of 2 s: " + first.get() + ", " + second.get());
        System.exit(0);
    }
}
JAVA
configure
start
follow "127.0.0.1:$port"
got=$(hear 5)
expect 'a member alone: false
the next one, when that has given up: true
first round: true, true
left: true, true
second round, with a timeout of 2 s: true after more than 7 s, true' "$got"
