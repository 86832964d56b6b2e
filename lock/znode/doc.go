// Package znode is Holdfast's format on the wire, format 2: the names of a lock's nodes,
// their data, and the rules that follow from them: which contender may enter, and which
// entry has expired. It does no I/O. No other package parses a node's name or data.
// Package lock/internal/queue documents when each node is written, and why that is safe.
//
// # A lock in ZooKeeper
//
//	/locks                                               the root: {"holdfast":2,"kind":"dir"}
//	/locks/.epoch                                        the mark of the leader's epoch
//	/locks/.revoke                                       below it, requests to give up a lock
//	/locks/orders                                        an ancestor: {"holdfast":2,"kind":"dir"}
//	/locks/orders/42                                     the lock's parent
//	/locks/orders/42/9f86d081884c7d65-lock-0000000007    the holder's entry
//	/locks/orders/42/9f86d081884c7d65-lock-0000000008    a waiter's entry
//	/locks/orders/42/anchor-9f86d081884c7d65__2147483647 the parent's anchor
//
// All nodes are persistent: the end of a session deletes nothing. An entry is
// persistent-sequential. Each contender has one, and it carries a lease.
//
// # Generation and anchor
//
// A generation is 16 lower-case hexadecimal digits, random. A client draws one for each
// request that makes a parent, and never uses it again. It stands in three places: in the
// parent's data, in the name of its anchor, and at the beginning of its entries' names.
//
// The anchor is a child of the parent, made and deleted with it in one transaction. So a
// transaction that checks the anchor proves that the parent is the one that the client
// knows. The anchor's name sorts behind all entries, and no library takes it for one. Its
// ACL is the lock's, and world may read it.
//
// A parent with no child but its anchor is empty. An anchor without a parent of its
// generation has no meaning; it goes with the node above it.
//
// # Names of entries
//
//	<tag> <token> <sequence>
//
// The tag is the parent's generation, or a random id where a client cannot prove that,
// because the parent is not adopted yet or an ACL forbids it. Either way no path of an entry
// ever comes again: a late delete or write cannot hit another entry. The token says what the
// contender asks for:
//
//	-lock-       exclusive
//	-__READ__    shared, on a read/write lock
//	-__WRIT__    exclusive, on a read/write lock
//	-5-lock-     five permits of a semaphore (one permit is -lock-); for a candidate in an
//	             election, exclusive with the priority 5
//
// The server appends the sequence: ten digits, or a minus sign and ten digits once the
// counter has overflowed. So the entry of sequence n of a mutex predicts the name of the one
// before it: the same prefix with n-1 ([Predict]). A prediction proves nothing until a read
// has shown that node. Names never begin with "_c_", by which go-zookeeper's own lock knows
// the entries that it has made.
//
// Entries of other libraries (zk.Lock and Curator: "_c_<guid>-lock-", kazoo:
// "<uuid>__lock__") are contenders without a tag. Our clients wait for them and never delete
// them. A child whose name does not parse is no contender and is ignored. Curator's locks and
// zk.Lock wait for our entries; kazoo's Lock does with extra_lock_patterns=["-lock-"], its
// WriteLock with ["-__READ__", "-__WRIT__"], and its ReadLock with ["-__WRIT__"].
//
// # Order
//
// The lower sequence came first, as long as it is below 2147483647. There the counter ends:
// from ZooKeeper 3.6 on it sticks and repeats, and creates in flight together may turn
// negative. An entry with the sequence 2147483647 or a negative one is never granted
// ([Name.Overflowed]): its client deletes it, and joins again when the parent has been
// deleted and counts from 0. Among themselves such entries stand behind all others, in the
// order of their Czxid.
//
// # Data of an entry
//
// JSON that a person can read in zkCli.sh:
//
//	{"holdfast":2,"owner":"shop-7f9c","host":"node3","pid":4711,"ttl_ms":30000,
//	 "expires_at":1767225630000,"acquired_at":1767225600000,"attempt":"60303ae22b998861",
//	 "metadata":{"job":"ship"}}
//
// [Record] has the fields. Unknown keys are ignored. An entry whose data is of a higher
// version is waited for and never deleted. Times are Unix milliseconds in ensemble time, the
// clock of the ZooKeeper leader. expires_at is an estimate for people and tools: no verdict
// rests on it. attempt is random; by it a client finds its entry after a lost reply.
//
// An election is a mutex. In the metadata of a candidate "election.value" is the value that
// it stands with. The first candidate leads from when acquired_at is there.
//
// # Data of a parent
//
//	{"holdfast":2,"kind":"mutex","generation":"9f86d081884c7d65"}
//
// [Parent] has the fields. The data stays the same for as long as the anchor of its generation
// is there: each join writes the same bytes again, for the sake of the reply.
//
// An empty node, an ancestor, or a parent without the anchor of its generation is adopted: a
// client creates its entry there under a random id, and then writes a new generation and its
// anchor. A parent that was found empty is marked with "adopted":true; clients use it, and do
// not delete it when the last entry leaves. Data that is neither empty nor ours is foreign, and
// the path is refused.
//
// # Data of an anchor
//
//	{"holdfast":2,"kind":"anchor","permits":4,"resized":8}
//
// A semaphore's anchor has the number of permits that it was made with, and the number that a
// Resize has set since. A join to a semaphore checks the anchor at the version that the client
// knows, so it never rests on an old number.
//
// # When an entry has expired
//
// The lease of an entry ends ttl_ms after its last write. Other clients leave it alone for
// the grace longer. The leader stamps each write: its Mtime. Stamps are comparable only
// within one term: the time from one change of the leader, or step of its clock that was
// seen, to the next. So a judge counts
//
//   - from Mtime, if the entry was written in the present term;
//   - from the earliest stamp of the present term that the judge knows, if the entry was
//     written before that term;
//   - or, by its own monotonic clock, from when it first read this very version of the node.
//
// The entry has expired if any of them says so. If the judge needs a younger sample of the
// leader's clock, the verdict is [Unproven]. The holder counts its lease from before it sent
// the write, so the lease ends for the holder first. See [Entry.Judge] and [Now].
//
// The mark, .epoch below the root, keeps an early stamp of the present epoch for later judges.
// Only its Mtime and Mzxid count. The first client that has to judge an older write in a new
// epoch writes it:
//
//	{"holdfast":2,"kind":"epoch"}
//
// # Admission
//
// A contender waits for the nearest earlier one that excludes it. Of a semaphore's contenders
// all are in, from the first one on, that together ask for no more permits than there are: a
// contender that asks for many is not overtaken. Entries of other libraries ask for one. [WaitsFor]
// is the rule; it knows names and [Rules] only.
//
// A writer that only reads from now on ("shared" in its record) keeps its name and its place. A
// reader enters if its nearest earlier writer tells that: none was ahead of that writer when it
// was granted, and between the two there are only readers. A client that does not know of the
// record, such as one of another library, waits until the entry has gone, which is safe. A
// second entry for reading would not be: Curator makes one with the sequence of the first from
// 5.5 on, and so lets in a client that has seen the writer hold the lock and go. So after an
// entry of another library on a read/write lock has gone, the children are listed ([Kind.Alone]).
//
// # Requests to give up a lock
//
// Below the node .revoke, {"holdfast":2,"kind":"asked"}, there is one node for each entry
// that is asked, with the same name as the entry:
//
//	{"holdfast":2,"request":"60303ae22b998861","entry":"orders/42/9f86d081884c7d65-lock-0000000007",
//	 "owner":"deploy","host":"node4","pid":815,"reason":"node3 is drained"}
//
// [Revocation] has the fields. The transaction that makes the node checks that the entry is
// there. Any client that knows that the entry has gone may delete the request. Data that a
// client does not understand is left alone. .epoch and .revoke stay when all locks are gone,
// and no lock can have those names.
//
// # The fencing token
//
// No data holds it. It is the Czxid of the entry, which never falls; then the sequence in
// its name, which tells apart the entries of one transaction; then the record's incarnation.
// Last comes how often a process has handed the entry on to itself, which only that process
// knows. See lock.Token.
//
// # Format 1
//
// Versions before the first release wrote format 1: "holdfast":1, a parent without an
// anchor, with the name of the last joiner in its data. No client reads or writes it
// ([ErrOlder]). A lock with such a parent is refused, and such an entry is waited for. The
// reaper counts these nodes, and deletes them only if it is told to.
package znode
