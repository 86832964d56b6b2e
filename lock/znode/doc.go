// Package znode is Holdfast's format on the wire, format 2: the names of a lock's nodes, their
// data, and two rules. The rules say which contender may enter, and which entry has expired. The
// package does no I/O. No other package parses a node's name or data. Package lock/internal/queue
// documents when each node is written, and why that is safe.
//
// The API of this package is not part of the compatibility promise in README.md: it may change in any
// release.
//
// # A lock in ZooKeeper
//
//	/locks                                               the root: {"holdfast":2,"kind":"dir"}
//	/locks/.epoch                                        the mark of the leader's epoch
//	/locks/.revoke                                       requests to release a lock, below it
//	/locks/orders                                        an ancestor: {"holdfast":2,"kind":"dir"}
//	/locks/orders/42                                     the lock's parent
//	/locks/orders/42/9f86d081884c7d65-lock-0000000007    the holder's entry
//	/locks/orders/42/9f86d081884c7d65-lock-0000000008    a waiter's entry
//	/locks/orders/42/anchor-9f86d081884c7d65__2147483647 the parent's anchor
//
// All nodes are persistent: the end of a session deletes nothing. An entry is
// persistent-sequential. Each contender has an entry, which carries a lease.
//
// # Generation and anchor
//
// A generation is 16 random lower-case hexadecimal digits, new for each request that creates a
// parent. It is in the parent's data, and in the names of the anchor and of the entries.
//
// The anchor is a child of the parent, created and deleted with it in one transaction. So a
// transaction that checks the anchor proves the parent's generation. No library takes the anchor
// for an entry. The anchor has the lock's ACL, and world:anyone may read the anchor. A parent with
// no child but its anchor is empty. An anchor of another generation than the parent's has no
// meaning; it is deleted with the parent.
//
// # Names of entries
//
//	<tag> <token> <sequence>
//
// The tag is the parent's generation. So no path of an entry ever recurs, and a late delete or write
// cannot hit another entry. The token is the contender's request:
//
//	-lock-       exclusive
//	-__READ__    shared, on a read/write lock
//	-__WRIT__    exclusive, on a read/write lock
//	-5-lock-     five permits of a semaphore (one permit is -lock-); for a candidate in an
//	             election, exclusive with the priority 5
//
// The server appends the sequence: ten digits, or a minus sign and ten digits once the counter has
// overflowed. So the name of a mutex's entry predicts that of its predecessor: the same prefix, and
// a sequence lower by one ([Predict]). A prediction proves nothing until a read has shown the
// predicted node. Holdfast's names never begin with "_c_", by which go-zookeeper's own lock knows
// its nodes.
//
// Entries of other libraries (zk.Lock and Curator: "_c_<guid>-lock-", kazoo: "<uuid>__lock__") are
// contenders without a tag. Holdfast's clients wait for them and never delete them. Other children
// are ignored. Curator's locks and zk.Lock wait for Holdfast's entries; kazoo's Lock does with
// extra_lock_patterns=["-lock-"], its WriteLock with ["-__READ__", "-__WRIT__"], and its ReadLock
// with ["-__WRIT__"].
//
// # Order
//
// The entry with the lower sequence was created first. The counter ends at 2147483647: from
// ZooKeeper 3.6 on it repeats that number, and concurrent creates may turn it negative. An entry
// with that sequence or a negative one is never granted ([Name.Overflowed]). Overflowed entries
// sort behind all other entries, by their Czxid.
//
// # Data of an entry
//
// JSON, readable in zkCli.sh:
//
//	{"holdfast":2,"owner":"shop-7f9c","host":"node3","pid":4711,"ttl_ms":30000,
//	 "expires_at":1767225630000,"acquired_at":1767225600000,"attempt":"60303ae22b998861",
//	 "metadata":{"job":"ship"}}
//
// [Record] has the fields. Unknown keys are ignored. Clients wait for an entry of a higher version,
// and never delete it. Times are Unix milliseconds in ensemble time, the clock of the ZooKeeper
// leader. expires_at is an estimate: no verdict uses it. attempt is random: by it a client finds
// its entry after a lost reply. A candidate's value is "election.value" in the metadata. The first
// candidate leads once its record has acquired_at. Blanks before the last brace keep the place of
// times that are not known yet, so that the record keeps its length.
//
// # Data of a parent
//
//	{"holdfast":2,"kind":"mutex","generation":"9f86d081884c7d65"}
//
// [Parent] has the fields. The data stays the same while the anchor of its generation is there:
// each join writes the same bytes again, only for the reply.
//
// An empty node, an ancestor, or a parent without its anchor is adopted: a client writes a new
// generation and its anchor. A node that had no data is marked with "adopted":true, so that the
// last client to leave does not delete it. Other data that is not Holdfast's is foreign, and the
// path is refused.
//
// # Data of an anchor
//
//	{"holdfast":2,"kind":"anchor","permits":4,"resized":8,"single":true}
//
// A semaphore's anchor has its original number of permits, and the number that a Resize has set
// since. A join checks the anchor's version, so it never uses an old number. With "single", each
// contender that has joined asks for one permit: the number of contenders is that of the permits. The
// first join that asks for several writes the anchor without it. It never comes back.
//
// # When an entry has expired
//
// The lease of an entry ends ttl_ms after its last write. Other clients wait for the grace too
// before they delete the entry. The leader stamps each write: its Mtime. Stamps are comparable only
// within one term. A term begins with a change of the leader, or when detected steps of its clock
// may add up to more than 50 ms. It lasts until the next term. So a judge, which is any client that
// decides whether an entry has expired, counts
//
//   - from Mtime, if the entry was written in the present term;
//   - from the earliest stamp of the present term that the judge knows, if the entry was
//     written before that term;
//   - or, by its own monotonic clock, from when it first read the present version of the node.
//
// The entry has expired if any of these counts exceeds the lease and the grace. The holder counts
// its lease from before it sent the write, so for the holder the lease ends first. See
// [Entry.Judge] and [Now].
//
// The mark, .epoch below the root, keeps an early stamp of the present epoch for later judges: its
// Mtime, with its Mzxid. In a new epoch, the first client that must judge an older write writes the
// mark:
//
//	{"holdfast":2,"kind":"epoch"}
//
// # Admission
//
// A contender waits for the nearest earlier contender that excludes it. In a semaphore the first
// contenders are admitted, as long as the permits suffice: no contender overtakes another that asks
// for many. Entries of other libraries ask for one permit. [WaitsFor] is the rule; it needs only
// names and [Rules].
//
// A downgraded writer, which only reads from now on ("shared" in its record), keeps its entry. A
// reader enters if the record of its nearest earlier writer is shared: no contender was ahead of
// that writer at its grant, and only readers are between the two. A client that does not know
// "shared" waits until the entry is deleted, which is safe.
//
// A second entry for reading, as Curator creates it, would not be safe: it may have the first
// entry's sequence. A client that has seen the writer hold the lock and leave would then enter
// beside it. So when an entry of another library on a read/write lock is deleted, clients list the
// lock's children again ([Kind.Alone]).
//
// # Requests to release a lock
//
// Below the node .revoke, {"holdfast":2,"kind":"asked"}, each request has a node with the name of
// the entry:
//
//	{"holdfast":2,"request":"60303ae22b998861","entry":"orders/42/9f86d081884c7d65-lock-0000000007",
//	 "owner":"deploy","host":"node4","pid":815,"reason":"node3 is drained"}
//
// [Revocation] has the fields. The transaction that creates the node checks the entry. Any client
// that knows that the entry was deleted may delete the request. Clients never delete requests that
// they cannot decode. .epoch and .revoke stay when all locks are deleted; no lock can have these
// names.
//
// # The fencing token
//
// No node stores the token. Its parts are, in order: the Czxid of the entry, which never falls; the
// sequence in its name, which differs among the entries of one transaction; the record's
// incarnation; and the number of local handoffs, which only the holder's process knows.
package znode
