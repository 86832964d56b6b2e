// Package queue takes an entry into the queue of a lock, waits there until its turn comes, and
// takes it out again. This page is the protocol of the locks, the reaper and the command line.
// Package lock documents the promises to users, package znode the nodes and their data, package
// place the goroutines of one process. If code and page disagree, one of them is wrong.
//
// # Assumptions about ZooKeeper
//
// The protocol relies on the following, cited as (Z1) to (Z9).
//
//   - Z1: One leader orders all writes. Each write has a zxid, a rising number. The upper half of
//     a zxid is the epoch; each leader has its own. The leader stamps each write with its clock.
//     So a node's Mtime is a reading of that clock between the send and the reply of the request
//     that wrote the node.
//   - Z2: A new leader begins its epoch with all earlier commits.
//   - Z3: A transaction (Multi) is applied as a whole or not at all. The reply to a SetData in it
//     is the Stat at that point: it counts children that the transaction created before.
//   - Z4: The parent numbers sequential children by the count of all children ever created in it.
//     A node that is deleted and created again begins at 0.
//   - Z5: Each server answers reads from its own copy, which may be stale. But a read that shows
//     a write shows all earlier writes, and a session never goes back in time.
//   - Z6: A watch fires once. Package zkconn fires it at each reconnect too, and about once a
//     minute: an event says "read again". Only a deletion event proves anything.
//   - Z7: Sync lets a server catch up with the leader. It does not ask a quorum.
//   - Z8: Persistent nodes outlive the session that made them. A write that was sent can be
//     applied after its connection has failed.
//   - Z9: The counter of children ends at 2147483647, and repeats that number.
//
// # The life of an entry
//
//	          join                 wait                        Unlock
//	Request ────────▶  queued  ─────────────▶  granted  ─────────────────────▶  gone
//	   │                 │ ▲                     │   ▲                            ▲
//	   │ refused:        │ │ its place is        │   │ handed off to the next     │
//	   ▼ the parent      │ │ unknown: list       │   │ goroutine, or kept         │ lost:
//	 read it, adopt it,  │ │                     │   │ unused (package place)     │ Remove
//	 make ancestors      ▼ │                     ▼   │                            │
//	                  follow the              unlocked ── exchange: leave and ────┘
//	                  predecessor                         join in one transaction
//
// Each step is a function, named here as in the code. Each decision is a pure function: admit
// decides which contender is in, [znode.Entry.Judge] which entry has expired, package place which
// goroutine is next. The goroutine that sent a request always waits for its outcome (Queue.send),
// even if the caller gives up (abandonable).
//
// # Predictable names that never recur
//
// The client that creates a lock's parent draws a random generation, a new one for each send. The
// parent's data stores it. The anchor, a child named after it, proves it. The names of entries
// contain it: <generation>-lock-<sequence>. So no path ever recurs, and a late write or delete of
// an earlier generation finds nothing. The predecessor of the entry of sequence n is almost
// always <generation>-lock-<n-1>.
//
//	no parent    Create(P) Create(anchor) Create(P/<gen>-lock-) SetData(P, data, version 0)
//	a parent     Check(anchor)            Create(P/<gen>-lock-) SetData(P, data, any version)
//
// The data of a parent is constant while its anchor is there, so joins never collide. The SetData
// is there for its reply (Z3). NumChildren 2, the anchor and our entry, proves that we are alone:
// the lock is ours without a list. Mzxid is the first part of our fencing token, Mtime a sample
// of the leader's clock. The client that creates the parent is alone, so its first record already
// shows the grant.
//
// A client's belief about a parent has four values (type belief): absent, unknown, ours with its
// generation, and unwritable. The server checks each belief: a join with a wrong belief is
// refused, and joiner.refused corrects the belief by the operation that failed. A parent of
// another kind or format, or with data that Holdfast did not write, is refused and not touched.
//
// A parent without a generation or without its anchor is adopted, for example one that another
// library created. The entry is created below it under a random name, and proves which node it
// is:
//
//	Check(own entry)  Create(anchor)  SetData(P, data, the version read)
//
// If the ACL forbids that, the parent is unwritable: entries have random names, and each join
// lists. A parent that had no data is marked as adopted, and deleted only when its counter has
// reached its end.
//
// # Admission
//
//	no contender is ahead: we joined alone, or a list says so    enter
//	the predecessor is unknown                                   list
//	it is a writer that only reads now, and so do we             enter
//	it is there                                                  follow it
//	it is not there, and no read ever showed it                  list
//	it has gone, and may have been waiting itself                list
//	it has gone, and held the lock alone                         enter
//
// This is the function admit; nothing else lets a contender in. The last line holds because no
// contender is ahead of a lone holder, and none joins ahead of another. The predecessor is known
// to have held the lock if it was first in a list, if we joined as the second of two, or if its
// record shows the grant. A holder writes that record 300 µs after the grant. A mutex's entry
// predicts its predecessor; so does a semaphore's if there are more contenders than permits. All
// others list as they join.
//
// A contender enters only if half of its lease is left and its entry was written in the present
// session. Otherwise it renews, then lists. A list that contains our entry contains every earlier
// entry that still exists (Z5). If ours is missing, the contender syncs and lists again. A read
// is settled if its own session had already written our entry (waiter.settled). Only settled
// reads prove anything about other entries.
//
// # Waiting and purging
//
// Outside of semaphores a waiter watches its predecessor. Behind an entry of another library it
// also watches the nearest Holdfast entry ahead of that. A timer wakes it when that entry may
// have expired. An entry is judged by the leader's clock, or by how long this client has known
// its present version (package clock, znode.Now). Only assess reads, judges, gets the missing
// proof and reads again.
//
//   - Stamps of two leaders are never compared. A term begins with a new leader, or with a
//     detected step of the leader's clock. A lease written in an earlier term counts from the
//     first known stamp of the present one.
//   - Between two sessions the servers may lose their data and number past it. So a term of an
//     earlier session is doubted: a write numbered below it counts from its own stamp, if that is
//     later.
//   - No verdict rests on expires_at in a record, nor on a client's clock.
//   - After an outage of our own all other entries look expired. So a contender renews its own
//     entry before it purges. Entries not written since the outage get a third of their TTL more.
//
// purge lists once, and deletes the expired entries next ahead in one transaction, each on the
// version that was judged. An entry of another library has no lease, so clients wait for it.
//
// If our own entry has gone we queue again at the end. We remember its attempt as an orphan, and
// delete the entry if it appears after all.
//
// # Permits, elections, several locks
//
//   - The anchor's data has a semaphore's number of permits. A join checks the known version of
//     the anchor, so number and count are of one moment. A waiter lists, reads the number, and
//     counts; it discards a pair of reads that is not settled. A contender is in if it and the
//     contenders ahead ask for at most the permits there are. See permits.go for the nodes that a
//     waiter watches, and Resize for changes of the number.
//   - An election is a mutex. A candidate whose turn has come syncs and lists the candidates
//     behind it. If a live one has a higher priority, the candidate withdraws and joins anew
//     (yield). The leader is the first entry, if it is alive and its record shows the grant.
//   - One transaction joins several locks, so no deadlock is possible (type all). All are granted
//     at one moment. If one entry has gone, or is not found after a lost reply, all are
//     withdrawn.
//
// # The goroutines of one process
//
// Within its window an unlocked entry is handed off to the first local waiter. That takes no
// request, unless a write is in flight or the lease is not fresh: then a join continues the entry
// (pass). While goroutines wait, the client lists the contenders, and watches while there are no
// others (followOthers): so long the window stays open. If there are others, or the list fails, the
// first goroutine joins while the entry is still held.
//
// # Leaving
//
//	alone, and not used again and again    Delete(E, v) Delete(anchor) Delete(P, version of the join)
//	else                                   Delete(E, v)
//	unlocked, goroutines wait              Delete(E, v) Check(anchor) Create(E') SetData(P)
//
// A parent that was used within the last second stays, and so does one with other contenders. A
// client that leaves, gives up or purges without deleting the parent checks the parent later
// (owe): after a second, or at Close. It deletes the parent with its anchor if there is no other
// child. If another contender has come meanwhile, that contender has this duty. The reaper
// deletes what a crash leaves.
//
// The third line is the function exchange. It resends the transaction, each time under a new
// attempt, until the outcome is definite. E can be deleted only once, so no earlier send can be
// applied later.
//
// # Detach and attach
//
// Detach ends an entry in this process and writes it once more, as detached, with a lease of its
// own. Attach reads the entry after a Sync, and writes it twice on the version read, v: only one
// client succeeds. One write is not enough: the previous owner, if a renewal of its own is in
// doubt, may still write or delete on version v+1. Two writes leave v+2, so the server refuses
// that. If the entry was not detached, Attach waits until its lease has ended.
//
// # Lost replies
//
// A write that failed was refused, was not sent, or is in doubt: it may be applied, now or later
// (zkconn.OutcomeOf). Each kind of write resolves a doubt:
//
//   - A create: by a list after a Sync, and by the records of the entries that may be ours, the
//     youngest first (resolveCreate). If a record has our attempt we have joined, and list.
//     Otherwise we remember the attempt as an orphan for an hour, and join anew.
//   - A renewal, a detach or an attach: the same bytes are sent again on the same version. If the
//     server refuses, and the node has our bytes, the first write was applied (package lease).
//   - A delete: it is sent again. A missing node is a success, unless the lease may have
//     expired before the unlock.
//   - A purge: by the next list.
//
// # Sequence rollover
//
// An entry of sequence 2147483647, or a negative one, is never granted (Z9). It leaves. The
// contender waits, without an entry, until the parent has been deleted, even an adopted one, and
// counts from 0 again (rollover). So clients that hand an entry off locally, or keep it unused,
// check the counter too (countContenders).
package queue
