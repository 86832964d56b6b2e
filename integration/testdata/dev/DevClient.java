import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.leader.*;
import org.apache.curator.framework.recipes.locks.*;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator on holdfast dev: what programs do with it. */
public final class DevClient {
    static void want(boolean ok, String what) {
        if (!ok) {
            System.out.println("not so: " + what);
            Runtime.getRuntime().halt(1);
        }
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new ExponentialBackoffRetry(100, 10));
        AtomicInteger lost = new AtomicInteger();
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) lost.incrementAndGet();
        });
        client.start();

        InterProcessMutex one = new InterProcessMutex(client, "/curator/mutex"), two = new InterProcessMutex(client, "/curator/mutex");
        ExecutorService others = Executors.newCachedThreadPool();
        one.acquire();
        want(!others.submit(() -> two.acquire(300, TimeUnit.MILLISECONDS)).get(), "a waiter gives up");
        Future<Boolean> next = others.submit(() -> { two.acquire(); two.release(); return true; });
        one.release();
        want(next.get(), "the next waiter has the lock");

        InterProcessReadWriteLock rw = new InterProcessReadWriteLock(client, "/curator/rw");
        rw.readLock().acquire();
        rw.readLock().release();
        rw.writeLock().acquire();
        rw.writeLock().release();
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/curator/semaphore", 2);
        semaphore.returnLease(semaphore.acquire());
        LeaderLatch latch = new LeaderLatch(client, "/curator/latch");
        latch.start();
        latch.await();
        want(latch.hasLeadership(), "the only candidate leads");
        latch.close();
        want(client.transaction().forOperations(client.transactionOp().create().forPath("/curator/t"),
            client.transactionOp().delete().forPath("/curator/t")).size() == 2, "a transaction is applied");

        client.close();
        want(lost.get() == 0, "no connection was lost");
        System.out.println("all is well");
        Runtime.getRuntime().halt(0); // whatever its threads wait for
    }
}
