// Package locktest is a ZooKeeper ensemble in memory, for unit tests of code
// that takes locks, or does anything else with ZooKeeper.
//
// It is no mock. An [Ensemble] speaks ZooKeeper's wire protocol over connections
// in memory, so the client library is the real one, unchanged, and its habits are
// part of what is tested:
//
//	ens := locktest.Start(t, locktest.Options{})
//	conn, _, err := zk.Connect(ens.Servers(), 10*time.Second, zk.WithDialer(ens.Dialer("worker-1")))
//
// The label that a dialer is given names the client to the faults that a test
// wants to see survived:
//
//	ens.ExpireLabel("worker-1")                  // its session ends
//	ens.Cut("worker-1")                          // its connection breaks, its session lives
//	ens.Freeze("worker-1")                       // it is stopped, and goes on with Thaw
//	ens.Partition("worker-1"); ens.Heal("worker-1")
//	ens.StepClock(-time.Minute)                  // the leader's clock is set
//	ens.StopLeader()                             // another member leads, in a new epoch
//	ens.Lag(member, 3*time.Second)               // a follower serves what was
//	ens.LoseWatches("worker-1")                  // its watches never fire, and nothing tells
//	ens.Forget()                                 // the servers come back without their data
//	ens.Intercept(func(r locktest.Request) locktest.Fault {
//		if r.Label == "worker-1" && r.Number == 7 {
//			return locktest.Fault{Drop: locktest.AfterApply} // applied, and the reply lost
//		}
//		if r.Op == "setWatches" {
//			return locktest.Fault{Code: -127} // throttled: the client has no watches after it reconnects
//		}
//		return locktest.Fault{}
//	})
//
// and [Ensemble.Dump], [Ensemble.Requests], [Ensemble.Transactions] and
// [Ensemble.Trace] tell what came of it.
//
// [Ensemble.Serve] serves a member over TCP, to processes of their own and to clients in
// other languages.
//
// # Virtual time
//
// An ensemble works in real time, and in a bubble of [testing/synctest], where a
// session of an hour expires at once and a test is never slow or flaky:
//
//	synctest.Test(t, func(t *testing.T) {
//		ens := locktest.Start(t, locktest.Options{})
//		ens.Partition("worker-1")
//		time.Sleep(10 * time.Second) // the session of a client that is cut off ends now
//	})
//
// It must be made, used and closed in the bubble, as must its clients. A bubble
// ends when all its goroutines have: after zk.Conn's Close, read its event
// channel until that is closed.
//
// There is no randomness in it, and what happens at the same instant happens in
// the same order each time, as far as the clients' own goroutines do. It needs no
// goroutine of its own: a request is served in the call that wrote it, or when a
// timer says that it arrives.
//
// # With go-zookeeper
//
// It allocates 3 MB for each connection; a test with many of them is faster with
// zk.WithMaxConnBufferSize(64<<10) and zk.WithMaxBufferSize(64<<10).
//
// Its version 1.0.4 has a data race, which the race detector may report: while it
// sets its watches again after a reconnection, it reads the last zxid that it has
// seen, and the reply to a request that was queued meanwhile sets it.
//
// # What is modelled
//
// As in ZooKeeper 3.8, unless said otherwise:
//
//   - Create (persistent, ephemeral, sequential, container), create2, delete, exists,
//     getData, setData, getACL, setACL, getChildren with and without Stat, sync,
//     multi of creates, deletes, sets and checks, setAuth, setWatches, checkWatches,
//     removeWatches, ping and closeSession, with the server's order of checks, which
//     decides what error is told. An empty container is deleted after a minute.
//   - The whole Stat, with the counting of child changes that servers show; times
//     are stamped by the leader when it makes the transaction.
//   - Sequences, from a counter of the parent's that sticks at 2147483647. Within
//     a multi it counts on from there, and turns negative. On a real server so do
//     requests that are prepared while others are not yet applied; here, none are.
//   - A multi is all or nothing, with one zxid. Failed writes take a zxid, too;
//     but a request that cannot be decoded does not, as since 3.9.
//   - Watches on data, existence and children; one-shot, one for each
//     connection and path, sent before the reply that shows the change.
//   - Sessions: made and ended by transactions; taken up again with their
//     password, at any member; moved; expired when not heard of for exactly their
//     timeout (real servers round up to their tick), never without a leader.
//   - Access control with the schemes world, auth and digest. Exists needs
//     the permission to read, as since 3.8.4.
//   - Members with a view each. Writes go to the leader, and are answered when the
//     member that took them has applied them. A client that has seen more than a
//     member is refused by it. Without a majority, or a leader, all clients lose
//     their connections, as real servers drop them.
//   - Frames of more than 1 MB, or [Options].MaxFrame, and what is no frame, cut the
//     connection.
//
// What is not: nodes with a TTL, quotas, persistent and recursive watches, reconfiguration,
// SASL, TLS, the scheme ip, four-letter words beyond those of [Ensemble.Serve], observers,
// local sessions, read-only members, throttling; members that cannot reach each other; a
// log and its recovery: a write that the leader has made is known to all members that run,
// and stays. Operations that are not modelled are answered with "unimplemented", and a
// reconfiguration with "disabled"; after one that no server knows, the connection is
// closed, as servers do.
//
// Children are listed in no order that means anything, and not the one of their
// creation: clients must sort.
//
// What servers do that are none of ZooKeeper's can be asked for ([Quirks]).
//
// That all this is like a real server is not claimed but tested: the package's
// conformance tests run one table of scenarios against the ensemble and, where
// HOLDFAST_ZOOKEEPER=host:port names one, a real server, and both must answer the
// same; so must they to random requests.
package locktest
