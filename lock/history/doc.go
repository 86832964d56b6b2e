// Package history finds out what happened to locks, from the transactions of a ZooKeeper ensemble
// ([txnlog.Txn]). It does no I/O, and uses no reports of clients: the transaction log has every
// write of the protocol in one order, stamped by the leader. "holdfast history" prints the result.
//
// The API of this package is not part of the compatibility promise in README.md: it may change in any
// release.
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
//	renewed        the lease begins again
//	at_risk        half of the lease went by without a write (derived)
//	in_doubt       from here the whole lease may have gone by without a write, or may not (derived)
//	expired        the whole lease went by without a write (derived)
//	released       its client deleted the entry of a hold
//	withdrawn      its client deleted the entry of a waiter
//	purged         another client deleted the entry after its lease
//	swept          the reaper deleted the entry
//	removed        another client deleted the entry during its lease: by hand, or by a break
//	ended          the entry was deleted, and the log does not show whether by its client in another
//	               session or by another client; or by its client, and not whether it held the lock
//	session_ended  the entry, of another library, ended with its session
//	vanished       the log does not show the entry after a gap
//	broken         a client force-released the hold, and why
//	detached       the hold goes on without a process
//	attached       another process has taken the hold
//	shared         the writer only reads from here: readers may enter
//	overwritten    the entry's record was replaced by other data
//	revoke_asked   a client asked the holder to release, and why
//	made, adopted, deleted   the lock's node was created, adopted or deleted
//	permits        the number of a semaphore's permits has changed
//	tick           a run of a job was recorded, see package schedule
//	leader         another server leads: stamps are of another clock
//	clock          the leader's clock was stepped back; or stepped ahead, or a write waited that long
//	restored       the transaction does not fit what is known: others are missing before it, or the
//	               servers' data was replaced, or a server had lost some
//
// # What is known
//
// A Machine follows a log with [txnlog.Log.Follow]. It knows the entries of a lock from a snapshot on,
// or from when the lock's node was created. Else, after a gap, a restore, or a transaction on which the
// folders differ, and while a snapshot was saved that lacks one of its entries, the lock is not sure:
// then only an entry whose record shows the grant is granted, and [State.Unknown] is set. A lock becomes
// sure again with the next snapshot, or when an entry that excludes all others has recorded its grant.
//
// # What a log cannot tell
//
//   - What was there before the oldest snapshot that it reaches.
//   - When a client believed that it held the lock: at most from granted until the end of the lease
//     ([Event.Lease]), or until released. Clients count a lease from before they send the write, so
//     they stop believing before the stamped end.
//   - Which goroutine of a process had the lock: goroutines share an entry, and local handoffs write
//     nothing.
//   - Reads, watches, refused requests, and addresses of clients. The owner, host and process id
//     are those that clients write into their entries. A session that wrote no entry has no owner.
//   - How long an election took, and what the time was: stamps are the leader's clock.
//
// # Clocks
//
// Stamps of one leader are compared with each other. A stamp that is lower than the one before
// shows a step back. Other steps show when a client renews that knew the clock before: the record has
// the client's estimate of the leader's time. Steps in both directions are events.
//
// A step ahead is never proved: if the leader stood still while the write waited, or the client did,
// the log is the same. Then what depends on it is not known. at_risk, expired and [Event.Late] are only
// told of leases that ended in both cases; in_doubt is told of one that ended in only one of them, and is
// over with the next write of the entry. A holder's lease may have ended earlier by [Holder.Doubt].
// [Machine.Elapsed] does not count the steps as time.
package history
