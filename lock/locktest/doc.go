// Package locktest is a ZooKeeper ensemble in memory, for unit tests of code that takes locks or
// otherwise uses ZooKeeper.
//
// It is no mock. An [Ensemble] speaks ZooKeeper's wire protocol over connections in memory. So
// the test runs the real client library, unchanged, with all its peculiarities:
//
//	ens := locktest.Start(t, locktest.Options{})
//	conn, _, err := zk.Connect(ens.Servers(), 10*time.Second, zk.WithDialer(ens.Dialer("worker-1")))
//
// The label of a dialer names the client in the calls that inject faults:
//
//	ens.ExpireLabel("worker-1")                  // its session ends
//	ens.Cut("worker-1")                          // its connection breaks, its session lives
//	ens.Freeze("worker-1")                       // its process stops, until Thaw
//	ens.Partition("worker-1"); ens.Heal("worker-1")
//	ens.StepClock(-time.Minute)                  // the leader's clock is set
//	ens.StopLeader()                             // another member leads, in a new epoch
//	ens.Lag(member, 3*time.Second)               // a follower serves stale data
//	ens.LoseWatches("worker-1")                  // its watches silently never fire
//	ens.Forget()                                 // the servers restart without their data
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
// and [Ensemble.Dump], [Ensemble.Requests], [Ensemble.Transactions] and [Ensemble.Trace] show the
// results.
//
// [Ensemble.Serve] serves a member over TCP, to other processes and to clients in other
// languages.
//
// # Virtual time
//
// An ensemble works in real time, and in a bubble of [testing/synctest]. There a session of an
// hour expires at once, and tests are fast and deterministic:
//
//	synctest.Test(t, func(t *testing.T) {
//		ens := locktest.Start(t, locktest.Options{})
//		ens.Partition("worker-1")
//		time.Sleep(10 * time.Second) // the session of a client that is cut off ends now
//	})
//
// Make, use and close the ensemble and its clients in the bubble. A bubble ends when all its
// goroutines have ended: after zk.Conn's Close, read its event channel until the channel is closed.
//
// The ensemble is deterministic: events of the same instant always happen in the same order, as
// far as the clients' goroutines are deterministic. It needs no goroutine: it serves a request in
// the call that wrote it, or in the call of a timer when the request arrives.
//
// # With go-zookeeper
//
// go-zookeeper allocates 3 MB for each connection. A test with many connections is faster with
// zk.WithMaxConnBufferSize(64<<10) and zk.WithMaxBufferSize(64<<10).
//
// Version 1.0.4 has a data race, which the race detector may report. After a reconnection it
// reads the last zxid, to set its watches again. At the same time the reply to a request that was
// queued during the reconnection may write the last zxid.
//
// # What is modelled
//
// As in ZooKeeper 3.8, unless said otherwise:
//
//   - Create (persistent, ephemeral, sequential, container), create2, delete, exists, getData,
//     setData, getACL, setACL, getChildren with and without Stat, sync, multi of creates,
//     deletes, sets and checks, setAuth, setWatches, checkWatches, removeWatches, ping and
//     closeSession, with the server's order of checks, which decides which error is returned. An
//     empty container is deleted after a minute.
//   - The whole Stat, with real servers' counts of child changes. The leader stamps the time when
//     it makes the transaction.
//   - Sequences, from the parent's counter, which stops at 2147483647. Within a multi the numbers
//     continue from there, and turn negative. On a real server they also do for requests that are
//     prepared while earlier ones are not yet applied; an Ensemble has no such requests.
//   - A multi is all or nothing, with one zxid. Failed writes take a zxid, too. A request that
//     cannot be decoded does not, as since 3.9.
//   - Watches on data, existence and children; one-shot, one for each
//     connection and path, sent before the reply that shows the change.
//   - Sessions: created and ended by transactions; resumed with their password, at any member;
//     moved; expired after exactly their timeout without a message (real servers round up to
//     their tick), never without a leader.
//   - Access control with the schemes world, auth and digest. Exists needs
//     the permission to read, as since 3.8.4.
//   - Members, each with its own view. Writes go to the leader, and are answered when the
//     client's member has applied them. A member refuses a client that has seen later data.
//     Without a majority, or a leader, all clients lose their connections, as with real servers.
//   - Frames of more than 1 MB, or [Options].MaxFrame, and invalid frames cut the connection.
//
// Not modelled: nodes with a TTL, quotas, persistent and recursive watches, reconfiguration, SASL
// (the answer is that of a server without it: no token), TLS, the scheme ip, four-letter words
// beyond those of [Ensemble.Serve], observers, local sessions, read-only members, throttling;
// members that cannot reach each other; a log and its recovery: all running members know each write
// of the leader, and never lose it. The answer to an operation that is not modelled is
// "unimplemented", to a reconfiguration "disabled". After an operation that no server knows, the
// connection is closed, as with real servers.
//
// Children are listed in an arbitrary order, not that of their creation: clients must sort.
//
// [Quirks] model servers that differ from ZooKeeper.
//
// The package's conformance tests compare it with a real server. They run the scripts in
// testdata/conformance, and random requests, against the ensemble and, if HOLDFAST_ZOOKEEPER=host:port
// names one, a real server. Both must give the same answers. The scripts in testdata/faults show what
// each fault does.
package locktest
