// Package lock gives Go services distributed locks on ZooKeeper that hold through
// session flaps.
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
// Other locks on ZooKeeper are ephemeral nodes: when a session ends, by a network
// that jitters, a long garbage collection or a server's restart, the node goes and
// a second client enters while the first still works. Here an entry is a
// persistent node that carries an expiry. Sessions may come and go. A hold
// ends when it is unlocked or when its lease expires.
//
// # Choosing a lock
//
//	you need                                             use
//	work that only one process may do at a time          Mutex; if in doubt, this one
//	the same, and throughput matters more than order     Mutex with WithBarging
//	several locks together                               Client.LockAll
//	many readers, or one writer                          RWMutex
//	a concurrency limit                                  Semaphore
//	one leader that others can look up                   Election
//	work that goes on in another process                 Hold.Detach, Client.Attach
//	a turn for a short-lived worker                      Mutex.Enqueue, Client.Attach
//	to write data in ZooKeeper                           any, and write by Hold.Txn
//	to write data elsewhere                              any, and hand on Hold.Token; package fence
//
// Each hold is a lease and nothing else, so the same happens to all of them:
//
//	what happens               what comes of it
//	the holder dies            others may enter when its TTL and the grace are over
//	its session flaps, ends    nothing: it keeps the lock, and waiters keep their places
//	ZooKeeper is away          it keeps the lock until its lease ends, and knows when; no client enters
//	its client closes          it no longer has the lock, and the next waiter enters at once
//
// FAILURES.md, in this folder, tells what the holder and the waiters see of each failure, and
// what to do about it. The doc of each kind of lock has a table of its own.
//
// # What is promised
//
//  1. Mutual exclusion by lease. Losing, re-creating or expiring a ZooKeeper
//     session does not change the holder of a lock.
//  2. The holder knows first. A hold that cannot be renewed ends for its holder,
//     by [Hold.Context] and [Hold.Remaining], before another contender may enter.
//  3. A dead holder blocks for at most its TTL and the grace; a third of the TTL
//     more if the waiter had an outage itself. Then the next waiter in the queue
//     deletes its entry, or the reaper does. When ZooKeeper's leader changes, TTL and
//     grace count anew, from the first known stamp of the new one.
//  4. First come, first served: among processes, in turn; and among the goroutines of one
//     client that want the same lock in the same way. Goroutines share their client's place in
//     the queue; while other processes wait it is handed on for [Policy].LocalWindow at most.
//     Readers share, and so do the holders of permits.
//  5. Nothing is left behind. The last client to leave deletes the lock's parent node: at
//     once, or a second later if the lock is used again and again. Waiters and the reaper
//     remove whatever a crash leaves behind. An empty ancestor, such as orders of orders/42,
//     is the reaper's to delete. These stay: a node that was found empty, with the anchor
//     below it; and below the root the mark of the leader's epoch, and the node below which
//     holders are asked.
//  6. Fencing tokens rise with every grant. See [Token]; of readers, [RWMutex], of
//     permits, [Semaphore].
//
// # What is not promised
//
// A process that is paused after it last looked can act after its hold ended, and
// nothing on its own side can prevent that. Hand [Hold.Token] to whatever it changes.
// There, refuse a token lower than the highest one seen: package fence does so in
// memory, and tells how databases do. To write to ZooKeeper use [Hold.Txn], which only
// the holder can.
//
// While ZooKeeper has no quorum, no client enters. Holds go on through such an outage
// until their leases end.
//
// Deleting a lock's node by hand voids mutual exclusion.
//
// # What is assumed
//
//   - The monotonic clocks of clients, and the clock of the leader, run true within 500
//     ppm. They do where ntpd slews them; chrony slews far faster, unless its maxslewrate
//     says otherwise.
//   - While one server leads, its clock makes no step of more than the grace. A client
//     with a sample of the clock from before the step sees it, and does no harm. A client
//     without one can take for dead a holder that has not renewed since; so can one whose
//     next sample came after a step back to where the clock was. A sample predicts the
//     clock to within the time that its request took, and a millisecond more for each
//     second since: a smaller step is not seen. Steps are logged and counted ([Stats]).
//   - A ZooKeeper of a single server does not come back from a restart with another clock:
//     to its clients that is such a step.
//   - ZooKeeper 3.4.14 or later: the oldest that the tests were seen to pass on. [Dial]
//     looks, by one transaction that leaves nothing behind, whether the server counts and
//     replies as that does, and refuses another with [ErrUnsupported]; where ACLs do not let
//     us, it is logged as not checked. ClickHouse Keeper is refused: its replicas stamp
//     writes each by its own clock, so that a lease could end before its holder knows.
//     [WithUnsafeServer] goes on at your own risk. A client made by [New] is not checked;
//     CheckServer of package admin looks at more, and at the servers' releases.
//
// No client's wall clock is trusted. Expiry is judged in ensemble time, which the leader
// stamps on every write; a client knows it within the time that a request takes. The clocks
// of different leaders may differ by any amount: stamps of two leaders are never compared.
// What was written under an earlier leader counts from the first known stamp of the present
// one. A client that has waited behind a dead holder for its TTL and the grace by its own
// clock waits no longer, however often the leader changes.
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
//	    │         └ own node gone: queues again         ErrTaken    node overwritten
//	    │                                               ErrAttached by another client
//	    │                                               ErrBroken   by "holdfast break"
//	    │                                               ErrMaxHold  the policy's limit
//	    └ ctx ended: withdrawn                          ErrClosed   client closed
//
// A loss is told by the context of the hold, then by log, [Stats] and observers. Of an entry that was
// removed or overwritten the log also tells by how much the leader's clock was displaced
// last, if it was.
//
// A free lock costs one request and one transaction to take, and one of each to
// give back. A contended one goes to the next waiter in the queue, which watches the entry
// before its own and no other. It enters without a list if that entry tells its grant, as
// it does 300 µs after it; after shorter holds it lists.
//
// A lock that a process takes again and again, alone or in turn with others, is free
// for moments. Its parent stays until this process has not used it for a second, or the
// client closes; to delete it then costs one read and one transaction.
//
// # Contenders of one client
//
// The goroutines of a client that want the same lock with the same settings share one place
// in the queue, first come, first served. A handoff between them costs no request. Each has a
// hold of its own, with its own context, max_hold and token. While other processes wait the
// entry is handed on for the policy's LocalWindow at most, 10 ms by default: each entry ahead
// costs a window and a hold ([WithLocalWindow]). When the window is over, the entry leaves and
// the next goroutine joins at the end, in one transaction. If a goroutine waits for a hold
// that lasts, a second entry joins the queue as soon as other contenders are seen. Readers of
// an [RWMutex] have one entry together, if they come within the window; observers and [Stats]
// count that as one hold. A policy's Idle, or [WithIdle], keeps an entry unused until another
// contender comes: a lock that one process takes again and again then costs nothing.
//
// # Re-entry
//
// A context that comes from a hold carries the hold: that of [Hold.Context] or [Holds.Context],
// that which Do gives its function, and any derived from them. A call that takes the same lock
// by it does not wait. It returns another handle on the hold, with the same token, lease and
// options. The hold ends when all its handles were unlocked. A hold that is in doubt, see
// [Hold.Remaining], is confirmed before. Goroutines do not matter: one that is given the
// context shares the hold, and one that is not waits.
//
//	the context comes from        and is used for               what comes of it
//	a hold of a Mutex             Lock, TryLock, Do             another handle
//	a hold for writing            Lock, RLock                   another handle, which may write
//	a hold for reading            RLock                         another handle
//	a hold for reading            RWMutex.Lock                  ErrUpgrade: it would wait for itself
//	holds taken by All            All.Lock of the same locks    another handle on each
//	holds of some of the locks    All.Lock                      ErrInvalid: it could deadlock
//	a hold of a Semaphore         Acquire                       a hold with permits of its own
//	a leadership, or a Mutex      Campaign of the same name     ErrInvalid: it would wait for itself
//	  of that name
//	a leadership                  Lock of a Mutex so named      another handle
//	any hold                      Enqueue, Attach               an entry of its own
//	a hold of another client      anything                      it waits, perhaps for its own caller
//	a hold that has ended         anything                      the context's error; if derived by
//	                                                            context.WithoutCancel, a new hold
//
// # Several locks together
//
// [Client.LockAll] takes several locks, all of them or none, in one transaction if they
// are free. Its callers never wait for each other in a circle, in whatever order they name
// the locks. See [All].
//
// # Beside locks of other libraries
//
// A [Mutex] can share its path with zk.Lock, Curator's InterProcessMutex and kazoo's Lock,
// and an [RWMutex] with Curator's and kazoo's, so that services can be moved one process
// at a time. MIGRATING.md, in this folder, tells what that takes and which promises hold
// meanwhile.
//
// # Elections
//
// An [Election] is a mutex whose holder is the leader, with a value that all can read. What
// is promised of holds is true of leaderships: a leader that loses its lease knows so before
// another candidate leads, and its token is lower.
//
// The next leader is a waiting candidate of the highest priority ([WithPriority]). If the
// turn of a lower one comes first, it queues again behind that, and is never told, nor shown,
// that it leads; that takes a few round trips for each. To ask for the leader
// ([Election.Leader]) or to observe it ([Election.Observe]) takes no entry.
//
// # At risk
//
// A renewal is due when a third of the TTL has passed. When no more than half of it is
// left for sure, because renewals fail or max_hold is near, the hold is at risk, and
// [Hold.AtRisk] and the log tell so. It is a warning: the hold is good until its context
// ends, and when a renewal succeeds it is safe again.
//
//	                     AtRisk                        Check
//	renewals fail        with half of the TTL left     fails until one succeeds, or the hold is lost
//	max_hold is near     with half of the TTL left     passes
//	fixed lease          never: its end is known       passes
//	entry removed        no: the hold is lost at once  passes
//	paused, lease lasts  when the process goes on      fails until a renewal succeeds
//	paused for longer    no: the hold is lost          passes
//	no hold and no wait  -                             passes, also if ZooKeeper is away
//
// [Client.Check] answers a health check. An [Observer], see [WithObserver], is told of
// all that happens to a client's locks. Ready ones are in lock/observe: for slog and zerolog, and as
// modules of their own for Prometheus and OpenTelemetry, which this package does not bring
// in.
//
// # From one process to the next
//
// A hold of any lock but a leadership can go on in another process, or in the same one after a
// restart. No contender enters in between that could not have entered beside it. [Hold.Detach]
// ends it here and gives a [Ticket], a line of text. [Client.Attach] goes on there by the
// same entry, to read or to write, or with as many permits, as before. The incarnation of the
// token is one higher, so that a resource that compares tokens refuses late acts of the
// process before. [Mutex.Enqueue], [RWMutex.Enqueue], [RWMutex.REnqueue] and
// [Semaphore.Enqueue] do the same for a place in the queue: a short-lived worker joins, exits,
// and comes back for its turn.
//
//	what happens                                what comes of it
//	two clients attach with the same ticket     one succeeds, the other gets ErrAttached
//	no client attaches in time                  the entry is purged, and Attach gets ErrRemoved
//	Attach is given up before its turn          the place is kept, and the ticket is good still
//	attached client dies, waiting or holding    its entry expires as any other does
//	a detached waiter's turn comes              it blocks until a client attaches, or TTL and grace
//	the process dies without having detached    a ticket of Hold.Ticket is good when the lease has
//	                                            ended, if no waiter was quicker to purge it
//	the hold's process lives                    no client can attach, by whatever ticket
//
// The price: until a client attaches, the lock has no holder, and contenders that the hold
// would keep out stay out. Give Detach the time that fits, and Enqueue by [WithTTL]. A reader
// that shares its entry with others of its client ([WithLocalWindow]) cannot detach it.
//
// # Asking for a lock
//
// [Client.Revoke] requests the release of a lock from its holders, and tells them why. They
// hear of it at once, by [Hold.Revoked], and decide:
//
//	for {
//		select {
//		case <-work:
//			// the next piece
//		case r := <-hold.Revoked():
//			log.Printf("%s asks for %s: %s", r.Owner, hold.Name(), r.Reason)
//			return hold.Unlock()
//		case <-hold.Context().Done():
//			return hold.Err()
//		}
//	}
//
// What comes of it:
//
//	what happens                           what comes of it
//	the holder does not listen             nothing: the hold goes on
//	the holder listens later               is told then, if the hold still lasts
//	several clients ask                    the last one is told, or each, if received between
//	no session when it is asked            is told when there is one again
//	the hold ends meanwhile                the next holder is not asked
//	a reader or permit holder among many   all are asked, those of other libraries excepted
//	the hold is handed on by a ticket      the client that attaches is asked too
//	Client.Close, max_hold, a lost lease   the request is deleted, sooner or later
//
// # Bounds
//
// [Dial] waits for servers that cannot be reached, or whose names cannot be resolved yet,
// until its context ends: give it a deadline. Calls return when their contexts end,
// whatever the servers do; what a call may have made by then is deleted in the background.
// An unlock is tried for the unlock timeout, [WithUnlockTimeout].
//
// [Client.Close] ends all holds and waits, and deletes their entries, many in a
// transaction. For that, for the clean-up of calls that were given up, and for the end of
// the session if the connection is the client's own, it takes the unlock timeout at
// most, and a tenth of a second. What could not be deleted by then expires. Then it waits for
// a second at most until the logger and the observers have taken what is left to tell.
//
// No call, no renewal and no end of a hold waits for the logger or an observer. What they do
// not take in time is dropped, and counted in [Stats].
//
// # Choosing a TTL
//
// The default, 30 s, rides out the election of a ZooKeeper leader. Package policy tells how
// to choose a TTL, a grace and a session timeout, and has them come from a file that the
// reaper shares ([WithPolicies]).
//
// # Words
//
//	lock        a name, and the node of that name
//	entry       a contender's node below it
//	hold        a granted entry, as its holder sees it; holder, its owner
//	waiter      an entry that was not granted yet
//	lease       until when an entry is respected; every write of it renews the lease
//	TTL         how long a lease lasts
//	grace       for how long after its lease an entry is still left alone
//	purge       delete an expired entry
//	epoch       the time of one leader of ZooKeeper; each has a higher number
//	token       a number that rises with each grant
//	ticket      what another process needs to go on with an entry
//	reaper      the program that deletes expired entries and empty nodes
//
// The format on the wire is specified in package znode, and the protocol in the doc of
// lock/internal/queue. Package locktest is a ZooKeeper in memory, to test code that takes
// locks without a server. Package admin has what tools need that look after locks.
package lock
