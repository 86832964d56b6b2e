// Package znode is Holdfast's format on the wire: what the nodes of a lock are
// named, what they hold, and what follows from them: who may enter, and what has
// expired. It does no I/O. Nothing outside this package parses a name or a node's data.
// When which of it is written, and why that is safe, is told by the doc of package
// lock/internal/queue.
//
// # A lock in ZooKeeper
//
//	/locks                                        the root: {"holdfast":1,"kind":"dir"}
//	/locks/.epoch                                 the mark of the leader's epoch
//	/locks/.revoke                                below it, who is asked to give up a lock
//	/locks/orders                                 an ancestor: {"holdfast":1,"kind":"dir"}
//	/locks/orders/42                              the lock's parent
//	/locks/orders/42/9f86d081884c7d65-lock-0000000007    the holder's entry
//	/locks/orders/42/60303ae22b998861-lock-0000000008    a waiter's entry
//
// Every node is persistent: the end of a session deletes nothing. An entry is
// persistent-sequential, one for each contender, and it carries a lease.
//
// # Names of entries
//
//	<id> <token> <sequence>
//
// The id is 16 lower-case hexadecimal digits, random, made anew for every
// attempt. It makes the path of an entry unique for ever, although a parent
// that was deleted and made again counts from 0 again: a late delete or write
// can never hit somebody else's entry. The token says what is asked for:
//
//	-lock-       exclusive
//	-__READ__    shared, on a read/write lock
//	-__WRIT__    exclusive, on a read/write lock
//	-5-lock-     five permits of a semaphore, one is -lock-; or exclusive, for a candidate
//	             of the priority 5
//
// The sequence is appended by the server: ten digits, or a minus sign and ten
// digits once the counter overflowed. Names never start with "_c_", which
// go-zookeeper's own lock takes for the start of one of its own.
//
// Entries of other libraries on the same path (zk.Lock and Curator:
// "_c_<guid>-lock-", kazoo: "<uuid>__lock__") parse as contenders without an
// id. They queue with ours, are waited for and are never deleted. A child whose
// name does not parse at all is no contender and is ignored. Whether they wait for ours is
// up to them: Curator's InterProcessMutex, its InterProcessReadWriteLock and zk.Lock
// do, kazoo's Lock with extra_lock_patterns=["-lock-"], its WriteLock with ["-__READ__",
// "-__WRIT__"], and its ReadLock with ["-__WRIT__"].
//
// # Order
//
// The lower sequence came first, as long as it is below 2147483647. From
// ZooKeeper 3.6 on the counter does not wrap there: it sticks, and repeats, and
// creates that are in flight together may turn negative. So a contender that is
// given [DrainAt] or more, and is not alone, withdraws and waits for the parent
// to be deleted, after which the count starts at 0 again. Should two entries
// ever stand beyond the end, they came after all others, in the order of their
// Czxid.
//
// # Data of an entry
//
// JSON that a person can read in zkCli.sh:
//
//	{"holdfast":1,"owner":"shop-7f9c","host":"node3","pid":4711,"ttl_ms":30000,
//	 "expires_at":1767225630000,"acquired_at":1767225600000,"metadata":{"job":"ship"}}
//
// holdfast is the version of the format. ttl_ms is the lease that every write of the
// entry renews. expires_at and acquired_at are Unix milliseconds in ensemble time, the
// clock of the ZooKeeper leader. expires_at is for people and tools, as the writer
// estimated it: no verdict rests on it, and after a change of the leader it can be wrong
// by as much as the two leaders' clocks differ. acquired_at is absent until the grant was
// recorded. "shared":true tells that a granted writer of a read/write lock only reads from
// now on. It is never taken back. "ahead":["9f86d081884c7d65-2-lock-0000000007"] names the
// entries, 16 at most, that may still have been ahead as permits of a semaphore were
// granted, so that whoever is right behind need not list. Three fields are there once an
// entry was handed on: incarnation counts how often it was; detached says that nobody has
// it now, and that whoever has its ticket may attach to it; attachment, from the write that
// attaches on, is random, so that its writer knows its own writes. An election is a mutex:
// in its candidates' metadata "election.value" is the value that they stand with, and the
// first of them leads from when acquired_at is there.
// idle_ms tells that the entry may be one that nobody has just now, kept for so long to be had
// again: it is given back as soon as somebody else joins.
// "broken":{"owner":"root","host":"node1","pid":7,"reason":"it hangs"} tells that somebody
// else has written the record, to end the hold: who, and why. Unknown keys are ignored.
// Data of a higher version is waited for and never deleted.
//
// # The fencing token
//
// It stands in no data: the Czxid of the entry's node, which never falls, and after it the
// sequence in its name, which tells apart those that one transaction has made, and the
// record's incarnation. How often a process has passed the entry on to itself comes last, and
// is known to that process alone. See lock.Token.
//
// # When an entry has expired
//
// The lease of an entry ends ttl_ms after its last write, and others leave it alone for
// the grace longer. The leader has stamped the write: its Mtime. But stamps can be
// compared only within one term: the time from one change of the leader, or displacement
// of its clock that was seen, to the next. So whoever judges counts
//
//   - from Mtime, if the entry was written in the present term;
//   - from the earliest stamp of the present term that it knows, if the entry was written
//     before that;
//   - or, by its own monotonic clock, from when it first read this very version of the
//     node.
//
// Whichever says so first, the entry has expired. What cannot be told without a younger
// sample of the leader's clock is [Unproven]. The holder counts its lease from before it
// sent the write, so that it ends for the holder first. See [Entry.Judge] and [Now].
//
// The mark, .epoch below the root, tells an early stamp of the present epoch to those who
// come later:
//
//	{"holdfast":1,"kind":"epoch"}
//
// Only its Mtime and Mzxid count. It is written once in each epoch, by the first who has to
// judge what was written before; and it stays when all locks are gone. No lock can have a
// name with that component.
//
// # Who is asked to give up a lock
//
// Below the node .revoke, {"holdfast":1,"kind":"asked"}, is one node for each entry that is
// asked, named by the entry's id:
//
//	{"holdfast":1,"request":"60303ae22b998861","entry":"orders/42/9f86d081884c7d65-lock-0000000007",
//	 "owner":"deploy","host":"node4","pid":815,"reason":"node3 is drained"}
//
// request is random, entry the path below the root, and the rest tells who asks, and why.
// It is made in a transaction that checks that the entry is there, and deleted by anybody who
// knows that it is not. Data that is not understood is left alone. .revoke stays when all
// locks are gone, and no lock can have a name with that component.
//
// # Data of a parent
//
//	{"holdfast":1,"kind":"mutex","tail":"60303ae22b998861-lock-"}
//
// kind is the kind of the lock: "mutex", "rw" or "semaphore"; or "dir" for an ancestor. Data that is neither empty nor
// ours belongs to somebody else, and the path is refused. The other fields:
//
//   - tail is the name, without the sequence, of the entry that joined last. Each joiner
//     writes it in the transaction that creates its entry. So it knows the name of the entry
//     before it without listing: the tail as it was, if its sequence is the own one less
//     one. That no node has a name so predicted proves nothing.
//   - released is an entry that held the lock alone and has gone, and below the Czxid of
//     the parent that it stood in. It is written in the transaction that deletes the entry,
//     where the entry did not tell its grant because the hold was too short, and by those
//     who join later. Nobody is ahead of a holder, and nobody joins ahead of another, so
//     no entry of a lower sequence is there. It stays true for as long as that parent
//     stands, and says nothing of another one.
//   - permits is how many permits a semaphore has, as all who use it have to say; resized
//     how many it has instead, since somebody has changed that.
//   - adopted marks a parent that was found empty, or had been made again by somebody else
//     when we wrote it. It is used, and not deleted when the last one leaves.
//
// The nodes above entries that Holdfast makes have one entry more in their ACL than the
// client's options say: world:anyone, without any permission. No write of data can erase it,
// so it tells a parent of ours whose data somebody has overwritten from one that is theirs.
//
// # Who goes in
//
// [Admit] is the admission rule: of the children of a parent, sorted, it says
// whether one is in, or which earlier one it has to wait for. It knows names only.
//
// A writer that only reads from now on, by "shared" in its entry, keeps its name and its
// place, and so Admit has all who are behind it wait for it still. But a reader whose
// nearest writer ahead tells that, goes in: nobody was ahead of that writer when it was
// granted, and between the two there are only readers. Whoever does not know of it, as
// other libraries do not, or has not seen it yet, waits until the entry has gone, which
// is safe. A second entry for the reader would not be: with a sequence of its own it
// would stand behind writers who wait; and that of the writer's, which Curator gives it
// from 5.5 on, lets in who saw the writer hold the lock and go. So after an entry of
// another library's on a read/write lock has gone, the children are listed ([Kind.Alone]).
//
// A semaphore's contenders are in as long as they and all before them ask for no more
// permits than there are; entries of other libraries ask for one. So those who are in
// stand before all who wait, and to know one's place it takes nothing but the names of
// those ahead and the number of permits.
package znode
