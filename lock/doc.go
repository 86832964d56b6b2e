// Package lock gives Go services distributed locks on ZooKeeper that hold through
// session flaps.
//
//	locks, err := lock.Dial(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"})
//	...
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
// persistent node that carries an expiry. Sessions may come and go. Only time
// ends a hold, or its holder.
//
// # What is promised
//
//  1. Mutual exclusion by lease. Losing, re-creating or expiring a ZooKeeper
//     session changes nothing about who holds a lock.
//  2. The holder knows first. A hold that cannot be renewed ends for its holder,
//     by [Hold.Context] and [Hold.Valid], before anybody else may enter.
//  3. A dead holder blocks for at most its TTL and the grace; a third of the TTL
//     more if whoever waits had an outage itself. Then the next one in the queue
//     deletes its entry, or the reaper does.
//  4. First come, first served, among those that live.
//  5. Nothing is left behind. The last one out deletes the lock's parent node;
//     what crashes leave, waiters and the reaper delete.
//  6. Fencing tokens rise with every grant. See [Token].
//
// # What is not promised
//
// A process that is paused after it last looked can act after its hold ended, and
// nothing on its own side can prevent that. Hand [Hold.Token] to whatever it
// changes, and have that refuse a token lower than the highest it has seen.
//
// Nobody enters while ZooKeeper has no quorum. Holds go on through such an outage
// until their leases end.
//
// Locks are meant for those who keep to them: a node that somebody deletes by
// hand is a lock that two may hold.
//
// # What is assumed
//
//   - The monotonic clocks of clients run true within 500 ppm.
//   - The clock of the ZooKeeper leader is not displaced by more than the grace
//     within a lease, by steps, by slewing, or by a change of the leader. What it
//     is displaced by is logged and counted ([Stats]).
//   - ZooKeeper 3.4.6 or later.
//
// No client's wall clock is trusted for anything. Expiry is judged in ensemble
// time, which is what the leader stamps on every write; a client knows it within
// the time that a request takes.
//
// # What shows it
//
// TestSimulation checks the promises in random histories of clients, faults and
// clocks. Beside it, by the numbers above:
//
//  1. TestSessionExpiryLosesNothing, TestChangeOfLeaders, TestLeaderSteps,
//     TestWallClocksDoNotMatter, TestClocksRunWrong, TestStaleFollower
//  2. TestHolderKnowsFirst, TestLeaseCountsFromTheSend, TestLateRenewalOfLostHold,
//     TestSuspendedHolder
//  3. TestDeadHolderBlocksForTTLAndGrace, TestRunOfTheDead, TestOutageOverDeadHolder
//  4. TestFirstComeFirstServed, TestWhoComesBackFirstWaitsForTheOthers
//  5. TestCancelledWaitersLeaveNoNode, TestAbandonedCallLeavesNothing,
//     TestAmbiguousUnlock, TestSomebodyJoinsAsTheParentIsDeleted,
//     TestBusyLockKeepsItsParentForAWhile
//  6. TestTokensRiseOverDeletions, TestManyJoinAtOnce
//
// The README tells which tests show the same on real servers, and how to run them.
//
// # The life of a hold
//
//	         Lock                    its turn
//	          │                          │            Unlock
//	          ▼                          ▼               │
//	┌─────────────────┐ granted ┌────────────────┐       ▼
//	│ queued: waits   ├────────▶│ held: renewed  ├──▶ ended: ErrUnlocked
//	│ for the nearest │         │ every third of │
//	│ earlier entry   │         │ the TTL        ├──▶ ended: LostError, because
//	└───┬─────────┬───┘         └────────────────┘      ErrExpired  no renewal in time
//	    │         │                                     ErrRemoved  node deleted
//	    │         └ own node gone: queues again         ErrTaken    node overwritten
//	    │                                               ErrMaxHold  the policy's limit
//	    └ ctx ended: withdrawn                          ErrClosed   client closed
//
// A free lock costs one request and one transaction to take, and one of each to
// give back. A contended one is handed on to the next in the queue, who watches
// nobody but the one before it. It knows that this one held the lock, so that it
// need not list, from the grant in that one's entry, or after a shorter hold from
// the release that is told in the parent; where neither could be written, it lists.
//
// A lock that a process takes again and again, alone or in turn with others, is free
// for moments. Its parent stays until this process has not used it for 50 ms, or the
// client closes; that it then sees to it costs one read and one transaction.
//
// # Choosing a TTL
//
// The TTL is how long a crash blocks the others, and how long an outage a hold
// survives. It should be longer than the session timeout, or else a connection
// that stalls costs holds before go-zookeeper notices that it does. The default,
// 30 s, rides out a leader election. TTLs can come from a file that the reaper
// shares: see package policy and [WithPolicies].
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
//	token       a number that rises with each grant
//	reaper      the program that sweeps up what nobody comes back to
//
// The format on the wire is specified in package znode. Package locktest is a
// ZooKeeper in memory, to test code that takes locks without a server.
package lock
