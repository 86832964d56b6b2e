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
// when it is unlocked or when its lease expires, not with a session.
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
//  3. A dead holder blocks other clients for at most its TTL (30 s by default) and the grace (2 s).
//     A waiter that has itself had an outage since the holder's last renewal waits a third of the
//     TTL longer. When ZooKeeper's leader changes, TTL and grace start again at the first known
//     stamp of the new leader.
//  4. First come, first served: among processes, and among the goroutines of one client. But
//     goroutines may hand a lock off among themselves while other processes wait, for 10 ms by
//     default ([Policy].LocalWindow).
//  5. Nothing is left behind. The last client to leave a lock deletes the lock's node: at once, or
//     a second later if the lock is in frequent use. Waiters and the reaper remove what a crash
//     leaves behind; the reaper removes empty ancestors, such as orders of orders/42. A lock node
//     that was there before its first use stays, and so do .epoch and .revoke below the root.
//  6. Fencing tokens rise with every grant. See [Token], [RWMutex] for readers, and [Semaphore]
//     for permits.
//
// Not guaranteed:
//
//   - A process that is paused after its last check can act after its hold has ended. Pass
//     [Hold.Token] to each resource that the work changes: it refuses a token lower than the
//     highest that it has seen.
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
// # Guides
//
// In this folder: HOLDS.md has the life of a hold, re-entry, goroutines, timeouts, clocks and
// servers; FAILURES.md what failures do, and the remedies; SECURING.md TLS, passwords and ACLs;
// MIGRATING.md how a lock is shared with zk.Lock, Curator and kazoo.
//
// Package policy says how to choose a TTL, package config reads a configuration file. Package schedule runs a job once a tick, shard shares
// shards among replicas. [Client.Check] answers a health check; the packages below observe make
// metrics and logs of events. Package locktest is a ZooKeeper in memory for tests, admin is for
// tools, znode specifies the format on the wire, lock/internal/queue the protocol.
package lock
