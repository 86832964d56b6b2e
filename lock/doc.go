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
// Other lock libraries for ZooKeeper use ephemeral nodes. The server deletes such a node with its
// session, and a second client enters while the first still works. Here an entry is a persistent
// node with a lease, which its client renews. A new session changes nothing. A hold ends when it is
// unlocked or when its lease expires.
//
// # Choosing a lock
//
//	you need                                             use
//	work that only one process may do at a time          Mutex; if in doubt, this one
//	the same, and throughput matters more than order     Mutex with WithBarging
//	several locks together                               Client.LockAll
//	any one of several, such as a free test environment  Client.LockAny
//	many readers, or one writer                          RWMutex
//	a concurrency limit                                  Semaphore
//	one leader that all clients can look up              Election
//	work that goes on in another process                 Hold.Detach, Client.Attach
//	to write data in ZooKeeper                           any, and write with Hold.Txn
//	to write data elsewhere                              any, and pass on Hold.Token; package fence
//
// All of them behave the same:
//
//	event                      result
//	the holder dies            the next waiter enters after the TTL and the grace
//	a session flaps or ends    nothing: holds go on, and waiters keep their places
//	ZooKeeper is unreachable   a hold lasts until its lease ends, which the holder knows; no client enters
//	the holder's client closes the hold ends, and the next waiter enters at once
//
// FAILURES.md, in this folder, lists the failures, their effect on holders and waiters, and the
// remedies.
//
// # One client or many
//
// Make one [Client] for a process, and share it. Its goroutines share one session, renewals
// (dozens in one transaction) and places in the queues. A client can keep more than ten
// thousand holds. Make a second client only for another root, other servers or other credentials.
// Two clients in one process contend as two processes do, and neither re-enters a lock that the
// other holds.
//
// # Terms
//
//	lock        a name, and the node of that name
//	contender   a call that wants the lock, or has it: a waiter or a holder
//	entry       a contender's node, below the lock's node
//	hold        a granted entry, as the holder's program sees it
//	lease       the time for which other clients respect an entry; every write of the entry renews it
//	TTL         how long a lease lasts after each renewal
//	grace       the time that other clients wait after a lease has expired before they delete the entry
//	purge       delete an expired entry
//	epoch       the term of one leader of ZooKeeper; each has a higher number
//	token       a text that sorts higher with each grant
//	ticket      a text with which another process continues an entry
//	reaper      the program that deletes expired entries and empty nodes
//
// # Guarantees
//
//  1. Mutual exclusion by lease. The end of a ZooKeeper session, or a new one, does not change the
//     holder of a lock.
//  2. The holder knows first. A hold that cannot be renewed ends for its holder, by [Hold.Context]
//     and [Hold.Remaining], before another contender may enter.
//  3. A dead holder blocks other clients for at most its TTL and the grace. Then the next waiter,
//     or the reaper, purges its entry. A waiter that has itself had an outage since the holder's
//     last renewal waits a third of the holder's TTL longer. When ZooKeeper's leader changes, TTL
//     and grace start again at the first known stamp of the new leader.
//  4. First come, first served: among processes, and among the goroutines of one client. But the
//     goroutines may hand a lock off among themselves while other processes wait, for 10 ms by
//     default ([Policy].LocalWindow). And they share one place in the queue: a goroutine that waits
//     behind another one of its client joins the queue when that one unlocks, or has held the lock
//     for a second. So it may be served after later calls of other processes.
//  5. Nothing is left behind. The last client to leave a lock deletes the lock's node: at once, or
//     a second later if the lock is in frequent use. Waiters and the reaper remove what a crash
//     leaves behind; the reaper removes empty ancestors, such as orders of orders/42. A lock node
//     that was there before its first use stays, and so do .epoch and .revoke below the root.
//  6. Fencing tokens rise with every grant. See [Token], [RWMutex] for readers, and [Semaphore]
//     for permits.
//
// # Not guaranteed
//
//   - A process that is paused after its last check can act after its hold has ended. The process
//     itself cannot prevent that: use fencing.
//   - While ZooKeeper has no quorum, no client enters. Holds last until their leases end.
//   - Deleting a lock's node by hand voids mutual exclusion.
//   - The guarantees rest on assumptions about clocks and servers, see below.
//
// # Fencing
//
// Pass [Hold.Token] to each resource that the work changes. The resource refuses a token lower than
// the highest it has seen. Package fence does so for resources in memory, and has the statements
// for SQL databases. To write to ZooKeeper use [Hold.Txn], which fails for any other client.
//
// # The life of a hold
//
//	         Lock                    its turn
//	          │                          │            Unlock
//	          ▼                          ▼               │
//	┌─────────────────┐ granted ┌────────────────┐       ▼
//	│ queued: waits   ├────────▶│ held: renewed  ├──▶ ended: ErrUnlocked
//	│ for the nearest │         │ every third of │
//	│ earlier entry   │         │ the TTL        ├──▶ ended: ErrDetached, see below
//	│                 │         │                │
//	│                 │         │                ├──▶ ended: LostError, because
//	└───┬─────────┬───┘         └────────────────┘      ErrExpired  no renewal in time
//	    │         │                                     ErrRemoved  node deleted
//	    │         └ entry removed: queues again         ErrTaken    node overwritten
//	    │                                               ErrAttached by another client
//	    │                                               ErrBroken   by "holdfast break"
//	    │                                               ErrMaxHold  the limit, see [WithMaxHold]
//	    └ ctx ended: withdrawn                          ErrClosed   client closed
//
// The hold's context, the log, [Stats] and observers report a loss.
//
// Taking a free lock costs one request and one transaction, and so does releasing it. A client's
// first lock takes more requests: it makes the root and ancestors, and learns the time. A contended
// lock goes to the next waiter in the queue. A waiter of a [Mutex] watches only the entry before
// its own.
//
// # Choosing a TTL
//
// The default, 30 s, rides out the election of a ZooKeeper leader. Package policy says how to
// choose a TTL, a grace and a session timeout, and reads them from a file that the reaper
// shares ([WithPolicies]).
//
// # Warnings, health checks and metrics
//
// When only half of the TTL is left, because renewals fail or max_hold is near, a hold is at risk.
// [Hold.AtRisk] and the log warn. The hold lasts until its context ends. If renewals failed, the
// next renewal that succeeds ends the risk.
//
// [Client.Check] answers a health check. It fails while a hold or a waiter is at risk because
// renewals fail.
//
// An [Observer] ([WithObserver]) receives all events. The packages below lock/observe have
// observers for slog, zerolog, Prometheus and OpenTelemetry.
//
// # Timeouts and closing
//
// [Dial] waits for servers until its context ends: give it a deadline. Calls return when their
// contexts end, whatever the servers do. A node that an ended call may have created is deleted in
// the background. An unlock is retried for at most the unlock timeout, [WithUnlockTimeout].
//
// [Client.Close] ends all holds and waits, and deletes their entries, in about the unlock timeout
// at most. Entries that are not deleted in this time expire. Close waits up to a second more for
// the logger and the observers.
//
// No other call, no renewal and no end of a hold waits for the logger or an observer; but a [Dial]
// that fails waits for them as Close does. Lines and events that they do not take in time are
// dropped, and counted in [Stats].
//
// # Re-entry
//
// The contexts of [Hold.Context] and [Holds.Context] carry the hold. So does the context that Do
// passes to its function, and so do all contexts derived from them. A call that takes the same lock
// with one of these contexts does not wait. It returns another handle on the hold, with the same
// token, lease and options. The hold ends when all its handles are unlocked. A hold in doubt (see
// [Hold.Remaining]) is confirmed first. Only the context counts: a goroutine with the context
// shares the hold, any other goroutine waits.
//
//	the context comes from        and is used for               result
//	a hold of a Mutex             Lock, TryLock, Do             another handle
//	a hold for writing            Lock, RLock                   another handle, which may write
//	a hold for reading            RLock                         another handle
//	a hold for reading            RWMutex.Lock                  ErrUpgrade: it would wait for itself
//	holds of some of the locks    All.Lock                      ErrInvalid: it could deadlock
//	a hold of a Semaphore         Acquire                       a hold with permits of its own
//	a leadership                  Campaign of the same name     ErrInvalid: it would wait for itself
//	any hold                      Attach                        an entry of its own
//	a hold of another client      anything                      the call waits, perhaps for its own caller
//	a hold that has ended         anything                      the context's error; if derived by
//	                                                            context.WithoutCancel, a new hold
//
// # Several locks without deadlock
//
// [Client.LockAll] takes several locks, all of them or none, in one transaction if they are free.
// Calls of LockAll never deadlock with each other, in whatever order they name the locks. See
// [All].
//
// # Leader election
//
// An [Election] is a mutex whose holder is the leader, with a value that all clients can read. A
// leader that loses its lease knows so before another candidate leads. The new leader has a higher
// token. The next leader is a waiting candidate of the highest priority ([WithPriority]).
// [Election.Leader] and [Election.Observe] create no entry.
//
// # Goroutines of one client
//
// The goroutines of a client that want the same lock with the same settings share one place in the
// queue. A handoff between them costs no request while the local window lasts. Each has a hold of
// its own, with its own context, max_hold and token. Only the first waiting goroutine joins the
// queue: when the holder unlocks after the window, or has held the lock for a second. So processes
// take turns, however many of their goroutines wait. [WithLocalWindow] has the exceptions, and the
// rule for readers.
//
// # Moving a hold to another process
//
// A hold of any lock but a leadership can continue in another process, or in the same program
// after a restart. [Hold.Detach] ends it in this process and returns a [Ticket], a line of text.
// [Client.Attach] continues it in the other process with the same entry; no contender enters in
// between. The token rises, so a resource that compares tokens refuses late writes of the first
// process. [Hold.Ticket] returns a ticket in case the process dies.
//
// Until a client attaches, the lock has no holder, and no other contender enters. You choose for
// how long, by Detach's argument. If several clients attach with one ticket, one succeeds.
//
// # Requesting the release of a lock
//
// [Client.Revoke] requests the release of a lock, with a reason. Its holders receive the request
// from [Hold.Revoked], whose example shows how, and each decides: no hold is forced to end.
//
// # Beside locks of other libraries
//
// A [Mutex] can share its path with zk.Lock, Curator's InterProcessMutex and kazoo's Lock, and an
// [RWMutex] with Curator's and kazoo's, so that services can be moved one process at a time.
// MIGRATING.md, in this folder, lists the requirements, and the promises that hold meanwhile.
//
// # Assumptions about clocks
//
// Holdfast trusts no client's wall clock. It judges expiry in ensemble time, which ZooKeeper's
// leader stamps on every write. Its assumptions:
//
//   - The monotonic clocks of clients, and the leader's clock, are accurate to 500 ppm. ntpd
//     slews within that. chrony slews far faster unless its maxslewrate limits it.
//   - While one server leads, its clock never steps by more than the grace. A client that knew the
//     clock before a step detects the step and stays safe. A client that did not know it may take a
//     live holder for dead, if that holder has not renewed since the step. Two kinds of steps go
//     undetected: a step undone before the client's next sample of the clock, and a step smaller
//     than the round trip of the last sample plus a millisecond for each second since. Detected
//     steps are logged and counted ([Stats]).
//   - A standalone ZooKeeper keeps its clock over a restart. Clients cannot tell a new clock from a
//     step of the old one.
//
// The clocks of different leaders may differ by any amount: stamps of two leaders are never
// compared. The lease of an entry that was written under an earlier leader counts from the first
// known stamp of the present leader. However often the leader changes, a client waits behind a dead
// holder for at most the TTL and the grace by its own monotonic clock.
//
// # Supported servers
//
// ZooKeeper 3.4.14 or later. [Dial] checks the server, and fails with [ErrUnsupported] if it does
// not count and reply as ZooKeeper does. So Dial refuses ClickHouse Keeper, where each replica
// stamps writes with its own clock. With [WithUnsafeServer] it continues, at your own risk. [New]
// does not check the server. CheckServer of package admin checks more.
//
// # Ensembles that change
//
// By default a client knows only the servers given to Dial, and looks up their names again for each
// round of tries. With [WithReconfiguration], or follow_reconfiguration in config.yaml, it follows
// the ensemble's dynamic reconfiguration: the client uses added servers, and disconnects from a
// removed one. All servers may be replaced, one after the other, while locks are held. Without this
// option, keep at least one of the configured servers in the ensemble until the client is restarted
// with the new list.
//
// # Other packages
//
// Package locktest is a ZooKeeper in memory, to test code that takes locks without a server.
// Package schedule runs a job once a tick, although all replicas have its schedule. Package admin
// is for tools. Package znode specifies the format on the wire, lock/internal/queue the protocol.
package lock
