#!/usr/bin/env bash
# Curator 5.4.0 (Debian bookworm), InterProcessSemaphoreV2, on ZooKeeper 3.8.0: two clients that want both
# permits of a semaphore block each other while no other client has one.
#
# Guess:  acquire(2) has its place in a queue, so the first gets both permits, and the second gets them after it;
#         a client that cannot have all has none.
# Seen:   permits are taken one by one, and the queue is joined anew for each. A third client gives back first one
#         permit and then the other: each of the two waiters has one of them, and waits for the other one, until
#         the time of one is over (here 30 s). With plain acquire(2) there is no such time.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
compile_curator <<'JAVA'
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Program {
    static CuratorFramework look;

    static InterProcessSemaphoreV2 semaphore(String server) {
        look = CuratorFrameworkFactory.newClient(server, new ExponentialBackoffRetry(500, 3));
        look.start();
        return new InterProcessSemaphoreV2(look, "/semaphore", 2);
    }

    static CompletableFuture<Collection<Lease>> acquire(InterProcessSemaphoreV2 semaphore, long seconds) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return semaphore.acquire(2, seconds, TimeUnit.SECONDS);
            } catch (Exception err) {
                throw new RuntimeException(err);
            }
        });
    }

    // settle waits until so many clients are in the queue, and one of them has made its node for a permit.
    static void settle(int queued, int nodes) throws Exception {
        while (look.getChildren().forPath("/semaphore/locks").size() != queued
            || look.getChildren().forPath("/semaphore/leases").size() != nodes) {
            Thread.sleep(50);
        }
        Thread.sleep(1_000);
    }

    static String got(Collection<Lease> leases) {
        return leases == null ? "none" : leases.size() + " permits";
    }

    public static void main(String[] args) throws Exception {
        InterProcessSemaphoreV2 third = semaphore(args[0]), a = semaphore(args[0]), b = semaphore(args[0]);
        List<Lease> leases = new ArrayList<>(third.acquire(2));
        CompletableFuture<Collection<Lease>> first = acquire(a, 30);
        settle(1, 3);
        CompletableFuture<Collection<Lease>> second = acquire(b, 120);
        settle(2, 3);
        third.returnLease(leases.get(0));
        settle(2, 3);
        third.returnLease(leases.get(1));
        Thread.sleep(15_000);
        System.out.println("15 s after the third client has none: the first waits: " + !first.isDone() + ", the second waits: " + !second.isDone());
        System.out.println("the first, when its time is over: " + got(first.get()));
        System.out.println("then the second: " + got(second.get()));
        System.exit(0);
    }
}
JAVA
configure
start
follow "127.0.0.1:$port"
got=$(hear 3)
expect '15 s after the third client has none: the first waits: true, the second waits: true
the first, when its time is over: none
then the second: 2 permits' "$got"
