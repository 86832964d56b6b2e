// Package queue takes an entry into the queue of a lock, waits there until its turn comes,
// and takes it out again. This page is the protocol that the locks, the reaper and the
// command line keep to. What users are promised stands in package lock; the nodes and their
// data in package znode; the goroutines of one process in package place. If code and page
// disagree, one of them is wrong.
//
// # What ZooKeeper does
//
// All that follows rests on this; (Z1) and so on say which of it is meant.
//
//   - Z1: One leader orders all writes. Each has a zxid, a number that rises; its upper half
//     is the epoch, one for each leader. The leader stamps each write with its clock. So a
//     node's Mtime is what that clock showed between the send and the reply of the request
//     that wrote it.
//   - Z2: A new leader begins its epoch with all that was committed before.
//   - Z3: A transaction (Multi) is applied as a whole or not at all. A SetData in it answers
//     with the Stat at its place: children that it created before are counted.
//   - Z4: The parent numbers sequential children by how many children were created in it,
//     ever. A node that is deleted and made again begins at 0 again.
//   - Z5: A read is answered by the server that is asked, and may be old. But what shows a
//     write shows all earlier ones, and a session never sees less than it has seen.
//   - Z6: A watch fires once. Package zkconn fires it at each reconnect too, and about once a
//     minute: an event says "read again". Only an event of deletion is proof.
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
//	   │ refused:        │ │ its place is        │   │ handed on to the next      │
//	   ▼ the parent      │ │ unknown: list       │   │ goroutine, or kept         │ lost:
//	 read it, adopt it,  │ │                     │   │ unused (package place)     │ Remove
//	 make ancestors      ▼ │                     ▼   │                            │
//	                  follow the              unlocked ── exchange: leave and ────┘
//	                  predecessor                         join in one transaction
//
// Each step is a function, named here as in the code, and each decision a pure one: admit
// says which contender is in, [znode.Entry.Judge] which entry has expired, package place
// which goroutine is next. A request that was sent is always answered for: its goroutine
// waits for the outcome (Queue.send), whatever becomes of the caller (abandonable).
//
// # Names that can be predicted, and never come again
//
// The client that makes a lock's parent draws a random generation, anew for each send. The
// parent's data stores it. The anchor, a child named after it, proves it. Entries have it in
// their names: <generation>-lock-<sequence>. So no path ever recurs. A late
// write or delete of an earlier generation finds nothing, and the entry of sequence n knows
// that its predecessor is, almost always, <generation>-lock-<n-1>.
//
//	no parent    Create(P) Create(anchor) Create(P/<gen>-lock-) SetData(P, data, version 0)
//	a parent     Check(anchor)            Create(P/<gen>-lock-) SetData(P, data, any version)
//
// The data of a parent is constant while its anchor is there, so joins never collide. The
// SetData is there for its reply (Z3). NumChildren 2, the anchor and we, says that we are
// alone: the lock is ours, without a list. Mzxid is the first part of our fencing
// token, Mtime a sample of the leader's clock. The client that makes the parent is alone, and its record tells the grant
// from the first.
//
// What a client believes of a parent has four values (type belief): absent, unknown, ours
// with its generation, and unwritable. Nothing rests on it unproved: a join that believes the
// wrong thing is refused, and joiner.refused learns from which operation was. A parent of
// another kind or format, or with data that Holdfast did not write, is refused and not touched.
//
// A parent without a generation or without its anchor, such as those of other libraries, is
// adopted. The entry is created below it under a random name, and proves which node it is:
//
//	Check(own entry)  Create(anchor)  SetData(P, data, the version read)
//
// If the ACL forbids that, the parent is unwritable: entries have random names, and each join
// lists. A parent that was found without data is marked as adopted, and deleted only when its
// counter is at its end.
//
// # Which contender is in
//
//	no contender is ahead: we joined alone, or a list says so    enter
//	the predecessor is unknown                                   list
//	it is a writer that only reads now, and so do we             enter
//	it is there                                                  follow it
//	it is not there, and no read ever showed it                  list
//	it has gone, and may have been waiting itself                list
//	it has gone, and held the lock alone                         enter
//
// That is admit, and nothing else lets a contender in. The reason for the last line: no
// contender is ahead of one that holds the lock alone, and none joins ahead of another. That
// the predecessor held it is known if it was first in a list, if we joined as the second of
// two, or if its record tells the grant, which is written 300 µs after it. A mutex's
// entry predicts its predecessor; so does a semaphore's if more contenders than permits are
// there. All others list as they join.
//
// A contender enters only if half of its lease is left and its entry was written in the present
// session. Otherwise it renews, then lists. A list that contains our entry contains every
// earlier entry that still exists (Z5). If ours is missing, the contender syncs and lists again.
// A read is settled if our entry had been written in the session of the read (waiter.settled).
// Only settled reads prove anything about other entries.
//
// # Waiting, and the dead
//
// Outside of semaphores a waiter watches its predecessor; behind an entry of another library
// also the nearest Holdfast entry ahead of that. A timer wakes it when that can have expired. What was read is judged by the leader's clock, or by how long this very version has
// been known here (package clock, znode.Now). assess is the one place that reads, judges,
// gets the missing proof and reads again.
//
//   - Stamps of two leaders are never compared. A term begins with a leader, and with each step
//     of its clock that is seen. A lease written in an earlier term counts from the first known
//     stamp of the present one.
//   - No verdict rests on expires_at in a record, nor on a client's clock.
//   - After an outage of our own all others look dead. So a contender renews its own entry
//     before it purges, and allows a third of the TTL more to entries not written since.
//
// purge lists once, and deletes the expired entries next ahead in one transaction, each on the
// version that was judged. An entry of another library has no lease, so it is waited for.
//
// If our own entry has gone we queue again at the end. Its attempt is remembered as an orphan,
// and the entry deleted if it is seen after all.
//
// # Permits, elections, several locks
//
//   - The permits of a semaphore stand in the anchor's data, and a join checks the anchor on
//     the version known, so that number and count are of one moment. A waiter lists, reads the
//     number, and counts; a pair that is not settled is discarded. A contender is in if it
//     and those ahead ask for no more permits than there are. permits.go says which nodes a
//     waiter watches; Resize, how the number changes.
//   - An election is a mutex. A candidate whose turn has come lists those behind it after a
//     Sync; if one of a higher priority lives, it withdraws and joins anew (yield). The leader
//     is the first entry, if it is alive and tells its grant.
//   - Several locks are joined in one transaction, so no circle of waiting can close (type
//     all). All are granted at one moment. If one entry has gone, or is
//     not found after a lost reply, all are withdrawn.
//
// # The goroutines of one process
//
// An unlocked entry is passed to the first goroutine that waits, inside its window: at once, or,
// if a write is on its way or the lease is not fresh, by a join that goes on from it (pass).
// While goroutines wait, the contenders are listed now and then (countOthers). If others are
// there, or the list fails, the first goroutine joins while the entry is still held.
//
// # Leaving
//
//	alone, and not used again and again    Delete(E, v) Delete(anchor) Delete(P, version of the join)
//	else                                   Delete(E, v)
//	unlocked, goroutines wait              Delete(E, v) Check(anchor) Create(E') SetData(P)
//
// A parent that was used within the last second stays, and so does one with other contenders.
// A client that leaves, gives up or purges without deleting the parent has to check it later
// (owe): after a second, or at Close, it reads the parent, and deletes it with its anchor if it
// has no other child. If another contender has come meanwhile, the duty is its own. What a crash
// leaves is the reaper's.
//
// The third line is exchange. It is sent again, each time under a new attempt, until the
// outcome is definite. E can be deleted only once, so no earlier send can be applied later.
//
// # Handing on to another process
//
// Detach ends an entry here and writes it once more, as detached, with a lease of its own.
// Attach reads the entry after a Sync, and writes it twice on the version read: of all clients
// that try one succeeds. Twice, because the previous owner may still write or delete on
// version v+1, if a renewal of its own is in doubt. Two writes leave v+2, so that is refused. One that
// was not detached is waited for until its lease has ended.
//
// # Replies that are lost
//
// A write that failed was refused, was not sent, or may have been applied, now or later
// (zkconn.OutcomeOf). The last is resolved for each kind of write:
//
//   - A create: by a list after a Sync, and the records of those entries that may be ours, the
//     youngest first (resolveCreate). If one tells our attempt we have joined, and list. If none
//     does, the attempt is remembered as an orphan for an hour, and we join anew.
//   - A renewal, and what detaches or attaches: the same bytes are sent again on the same
//     version. If that is refused, and our bytes stand there, it was us (package lease).
//   - A delete: it is sent again. A missing node is a success, unless the lease may have
//     expired before the unlock.
//   - A purge: by the next list.
//
// # The end of the counter
//
// An entry of sequence 2147483647, or a negative one, is never granted (Z9). It leaves, and
// the contender waits until the parent was deleted, even an adopted one, and counts from 0
// again (rollover). It has no entry meanwhile. So clients that hand an entry on, or keep it unused,
// look at the counter too (countContenders).
package queue
