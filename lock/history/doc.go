// Package history finds out what happened to locks, from the transactions of a ZooKeeper ensemble
// ([txnlog.Txn]). It does no I/O, and uses no reports of clients: the transaction log has every
// write of the protocol in one order, stamped by the leader. "holdfast history" prints the result.
//
// # What a log proves
//
// A [Machine] follows the nodes of each lock, and emits an [Event] for each change. The order of
// the entries, the kind of the lock and the number of permits show which entries' turn had come, by
// [znode.WaitsFor]: the rule by which clients enter.
//
//	joined         an entry was created
//	granted        nothing excludes the entry any more: from here its client may hold the lock
//	recorded       the client has recorded the grant: it held the lock before this write
//	renewed        the lease begins anew
//	at_risk        half of the lease went by without a write (derived)
//	expired        the whole lease went by without a write (derived)
//	released       its client deleted the entry of a hold
//	withdrawn      its client deleted the entry of a waiter
//	purged         another client deleted it after its lease
//	swept          the reaper deleted it
//	removed        another client deleted it during its lease: by hand, or by a break
//	session_ended  the entry, of another library, ended with its session
//	vanished       it was last seen before a gap in the log, and its lease is over
//	broken         a client force-released the hold, and why
//	detached       the hold goes on without a process
//	attached       another process has taken the hold
//	shared         the writer only reads from here: readers may enter
//	overwritten    the entry's data is not an entry's any more
//	revoke_asked   a client asked the holder to release, and why
//	made, adopted, deleted   the lock's node
//	permits        the number of a semaphore's permits has changed
//	tick           a run of a job was recorded, see package schedule
//	leader         another leader: stamps are of another clock
//	clock          the leader's clock was stepped
//
// # What a log cannot tell
//
//   - When a client believed that it held the lock. It may have, from granted until the end of the
//     lease ([Event.Lease]), or until released. Clients count a lease from before they send the
//     write, so they stop believing before the stamped end.
//   - Which goroutine of a process had the lock: they share an entry, and local handoffs write
//     nothing. Neither does a client that keeps an unused lock.
//   - Reads, watches, refused requests, and addresses of clients. The owner, host and process id
//     are those that clients write into their entries. A session that wrote no entry has none.
//   - How long an election took, and what the time was: stamps are the leader's clock.
//
// # Clocks
//
// Stamps of one leader are compared with each other. A stamp that is lower than the one before
// shows a step back. A step ahead shows when a client that knew the clock before renews: its record
// has its estimate of the leader's time. Both are events, and [Machine.Elapsed] leaves them out.
package history
