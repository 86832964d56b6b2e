#!/usr/bin/env bash
# Curator 5.4.0 (Debian bookworm), InterProcessMutex, on ZooKeeper 3.8.0: a mutex that was made revocable is so for
# one hold. In later holds its listener is not called, and nothing says so.
#
# Guess:  the documentation says that makeRevocable makes the lock revocable, and to use one instance again and again.
#         So the listener is called in each hold that a Revoker asks for.
# Seen:   in the first hold it is called for each request, in the second for none: release() forgets the listener.
#         attemptRevoke succeeds all the same. With makeRevocable before each acquire() the listener is called.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

unpack bookworm 3.8.0
compile_curator <<'JAVA'
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.RevocationListener;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Program {
    static CuratorFramework connect(String hosts) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(hosts, new ExponentialBackoffRetry(500, 3));
        client.start();
        return client;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = connect(args[0]), other = connect(args[0]);
        Semaphore asked = new Semaphore(0);
        RevocationListener<InterProcessMutex> listener = mutex -> asked.release();
        for (boolean anew : new boolean[] {false, true}) {
            InterProcessMutex mutex = new InterProcessMutex(client, "/lock");
            mutex.makeRevocable(listener);
            for (int hold = 1; hold <= 3; hold++) {
                if (anew) {
                    mutex.makeRevocable(listener);
                }
                mutex.acquire();
                String calls = "";
                for (int request = 0; request < 2; request++) {
                    Revoker.attemptRevoke(other, mutex.getParticipantNodes().iterator().next());
                    calls += " " + asked.tryAcquire(5, TimeUnit.SECONDS);
                }
                System.out.println((anew ? "made revocable before each hold" : "made revocable once") + ", hold " + hold + ", two requests:" + calls);
                mutex.release();
            }
        }
        System.exit(0);
    }
}
JAVA
configure
start
follow "127.0.0.1:$port"
got=$(hear 6)
expect 'made revocable once, hold 1, two requests: true true
made revocable once, hold 2, two requests: false false
made revocable once, hold 3, two requests: false false
made revocable before each hold, hold 1, two requests: true true
made revocable before each hold, hold 2, two requests: true true
made revocable before each hold, hold 3, two requests: true true' "$got"
