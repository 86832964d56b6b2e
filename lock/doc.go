// Package lock gives Go services distributed locks on ZooKeeper that hold through session flaps.
//
//	start, cancel := context.WithTimeout(ctx, 30*time.Second)
//	defer cancel()
//	locks, err := lock.Dial(start, []string{"zk1:2181", "zk2:2181", "zk3:2181"})
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//
//	hold, err := locks.Mutex("orders/42").Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Unlock()
//	return ship(hold.Context(), order, hold.Token())
//
// Each contender's entry is a persistent node with a lease, which its client renews. A hold ends
// when it is unlocked or when its lease expires, not with a session. The TTL is the length of a
// lease after each renewal. Before other clients delete an expired entry they also wait for the grace.
//
// Make one [Client] for a process, and share it: its goroutines share a session, renewals and
// places in the queues.
//
// # Choosing a lock
//
//	you need                                             use
//	work that only one process may do at a time          Mutex; if in doubt, this one
//	the same, and throughput matters more than order     Mutex.WithBarging
//	several locks together, without deadlocks            Client.All
//	any one of several, such as a free test environment  Client.Any
//	many readers, or one writer                          RWMutex
//	a concurrency limit                                  Semaphore
//	one leader that all clients can look up              Election
//	work that goes on in another process                 Hold.Detach, Client.Attach
//	to ask the holder to give up its lock                Client.Revoke, Hold.Revoked
//	to write data in ZooKeeper                           any, and write with Hold.Txn
//	to write data elsewhere                              any, and pass on Hold.Token; package fence
//
// # Guarantees
//
//  1. Mutual exclusion by lease. A session's end does not change the holder of a lock.
//  2. The holder knows first. A hold that cannot be renewed ends for its holder, by [Hold.Context]
//     and [Hold.Remaining], before another contender may enter. [Hold.AtRisk] warns before.
//  3. A dead holder blocks other clients for at most its TTL (30 s by default) and the grace (2 s),
//     or longer after an outage or a change of ZooKeeper's leader: HOLDS.md, "Clocks".
//  4. First come, first served: among processes, and among the goroutines of one client. But
//     goroutines hand a lock off among themselves for up to 10 ms ([Policy].LocalWindow) while other
//     processes wait.
//  5. Nothing is left behind. The last client to leave a lock deletes the lock's node, unless it was
//     there before. Waiters and the reaper remove what a crash leaves behind.
//  6. Fencing tokens rise with every grant. See [Token].
//
// Not guaranteed:
//
//   - A process that is paused after its last check can act after its hold has ended. Resources that
//     the work changes should refuse a [Hold.Token] lower than the highest that they have seen.
//   - While ZooKeeper has no quorum, no client enters. Holds last until their leases end.
//   - Deleting a lock's node by hand voids mutual exclusion.
//   - Monotonic clocks must be accurate to 500 ppm, and the leader's clock must not step by more
//     than the grace. Wall clocks of clients may be wrong.
//
// # Re-entry
//
// A call that takes a lock with a context of [Hold.Context], or one derived from it, returns another
// handle on that hold. The hold ends when all its handles are unlocked. Any other goroutine waits.
//
// # More
//
// HOLDS.md has the details, FAILURES.md what failures do, SECURING.md TLS, passwords and ACLs,
// MIGRATING.md how a lock is shared with zk.Lock, Curator and kazoo. Package policy says how to choose
// a TTL, config reads the configuration file, schedule runs a job once a tick, shard shares shards among
// replicas, locktest is a ZooKeeper in memory for tests. The packages below observe make metrics and
// logs of events; [Client.Check] answers a health check.
package lock
