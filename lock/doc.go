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
// Other locks on ZooKeeper are ephemeral nodes: the server deletes them with the session,
// and a second client enters while the first still works. Here an entry is a persistent node
// with a lease. Sessions may come and go. A hold ends when it is unlocked or when its lease
// expires.
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
// The same happens to all of them:
//
//	what happens               what comes of it
//	the holder dies            others may enter when its TTL and the grace are over
//	its session flaps, ends    nothing: it keeps the lock, and waiters keep their places
//	ZooKeeper is away          it keeps the lock until its lease ends, and knows when; no client enters
//	its client closes          it no longer has the lock, and the next waiter enters at once
//
// FAILURES.md, in this folder, says what the holder and the waiters see of each failure, and
// what to do about it.
//
// # One client or many
//
// Make one [Client] for a process, and share it. Its goroutines share one session, the
// renewals of all holds, hundreds in one transaction, and places in the queues; it can keep
// ten thousand holds and more. A second client is for another root, other servers or other
// credentials. Two clients in one process contend as two processes do, and a lock that one of
// them holds is not re-entered by the other.
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
//  4. First come, first served: among processes, and among the goroutines of one client that
//     want the same lock in the same way. Goroutines share their client's place in the queue;
//     while other processes wait it is handed on for [Policy].LocalWindow at most. Readers
//     share, and so do the holders of permits.
//  5. Nothing is left behind. The last client to leave deletes the lock's node, at once or,
//     if the lock is used again and again, a second later. Waiters and the reaper remove
//     what a crash leaves behind; the reaper removes empty ancestors, such as orders of
//     orders/42. A node that was found empty stays, and so do .epoch and .revoke below the
//     root.
//  6. Fencing tokens rise with every grant. See [Token]; of readers, [RWMutex], of
//     permits, [Semaphore].
//
// # What is not promised
//
//   - A process that is paused after its last check can act after its hold ended, and
//     nothing on its own side can prevent that. Hand [Hold.Token] to what it changes, and
//     refuse a token lower than the highest one seen there: package fence does so in
//     memory, and shows how databases do. To write to ZooKeeper use [Hold.Txn], which only
//     the holder can.
//   - While ZooKeeper has no quorum, no client enters. Holds go on until their leases end.
//   - Deleting a lock's node by hand voids mutual exclusion.
//
// # What is assumed
//
//   - The monotonic clocks of clients, and the clock of the leader, run true within 500
//     ppm. They do where ntpd slews them; chrony slews far faster, unless its maxslewrate
//     says otherwise.
//   - While one server leads, its clock makes no step of more than the grace. A client that
//     knew the clock before the step sees it, and does no harm. One that did not can take a
//     holder for dead that has not renewed since. A step is not seen either if it is taken
//     back before the client's next sample of the clock, or is smaller than the time that the
//     last sample took and a millisecond for each second since. Steps are logged and counted
//     ([Stats]).
//   - A ZooKeeper of a single server does not come back from a restart with another clock:
//     to its clients that is such a step.
//   - ZooKeeper 3.4.14 or later. [Dial] checks, by one transaction that leaves nothing behind,
//     that the server counts and replies as ZooKeeper does, and refuses another one with
//     [ErrUnsupported], ClickHouse Keeper among them: its replicas stamp each write by their
//     own clocks. [WithUnsafeServer] goes on at your own risk. A client made by [New] is not
//     checked; CheckServer of package admin checks more.
//
// No client's wall clock is trusted. Expiry is judged in ensemble time, which the leader
// stamps on every write. The clocks of different leaders may differ by any amount: stamps of
// two leaders are never compared. What was written under an earlier leader counts from the
// first known stamp of the present one. A client that has waited behind a dead holder for its
// TTL and the grace by its own clock waits no longer, however often the leader changes.
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
// A loss is told by the hold's context, and by the log, [Stats] and observers.
//
// A free lock costs one request and one transaction to take, and one of each to give back. A
// contended one goes to the next waiter in the queue, which watches the entry before its own
// and no other.
//
// # Contenders of one client
//
// The goroutines of a client that want the same lock with the same settings share one place
// in the queue, first come, first served. A handoff between them costs no request. Each has a
// hold of its own, with its own context, max_hold and token. While other processes wait, the
// entry is handed on for the policy's LocalWindow at most, 10 ms by default
// ([WithLocalWindow]); then it leaves, and the next goroutine joins at the end, in one
// transaction. Readers of an [RWMutex] that come within the window have one entry together;
// observers and [Stats] count that as one hold. A policy's Idle, or [WithIdle], keeps an
// unused entry until another contender comes: a lock that one process takes again and again
// then costs nothing.
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
// An [Election] is a mutex whose holder is the leader, with a value that all can read. A
// leader that loses its lease knows so before another candidate leads, and its token is
// lower. The next leader is a waiting candidate of the highest priority ([WithPriority]). To
// ask for the leader ([Election.Leader]) or to observe it ([Election.Observe]) takes no
// entry.
//
// # At risk
//
// A renewal is due when a third of the TTL has passed. When half of it is left, because
// renewals fail or max_hold is near, the hold is at risk, and [Hold.AtRisk] and the log say
// so. It is a warning: the hold is good until its context ends, and a renewal that succeeds
// makes it safe again.
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
// [Client.Check] answers a health check. An [Observer] ([WithObserver]) is told of all that
// happens to a client's locks. Ready ones are in lock/observe, for slog, zerolog, Prometheus
// and OpenTelemetry.
//
// # From one process to the next
//
// A hold of any lock but a leadership can go on in another process, or in the same one after a
// restart. [Hold.Detach] ends it here and gives a [Ticket], a line of text. [Client.Attach]
// goes on there by the same entry; no contender enters in between. The incarnation of the
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
// Until a client attaches, the lock has no holder, and others stay out. Give Detach the time
// that fits, and Enqueue by [WithTTL]. A reader that shares its entry with others of its
// client ([WithLocalWindow]) cannot detach it.
//
// # Requesting the release of a lock
//
// [Client.Revoke] requests the release of a lock, with a reason. Its holders hear of it at
// once, by [Hold.Revoked], and decide:
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
// until its context ends: give it a deadline. Calls return when their contexts end, whatever
// the servers do; what a call may have made by then is deleted in the background. An unlock is
// tried for the unlock timeout, [WithUnlockTimeout].
//
// [Client.Close] ends all holds and waits, and deletes their entries. That takes the unlock
// timeout at most, and a tenth of a second. What could not be deleted by then expires. Then it
// waits for a second at most until the logger and the observers have taken what is left.
//
// No call, no renewal and no end of a hold waits for the logger or an observer. What they do
// not take in time is dropped, and counted in [Stats].
//
// # Choosing a TTL
//
// The default, 30 s, rides out the election of a ZooKeeper leader. Package policy says how to
// choose a TTL, a grace and a session timeout, and reads them from a file that the reaper
// shares ([WithPolicies]).
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
// Package znode specifies the format on the wire, lock/internal/queue the protocol. Package
// locktest is a ZooKeeper in memory, to test code that takes locks without a server. Package
// admin has what tools need.
package lock
