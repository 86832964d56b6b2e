// Package znode is Holdfast's format on the wire: what the nodes of a lock are
// named, what they hold, and what follows from them. It does no I/O. Nothing
// outside this package parses a name or a node's data.
//
// # A lock in ZooKeeper
//
//	/locks                                        the root
//	/locks/orders                                 an ancestor: {"holdfast":1,"kind":"dir"}
//	/locks/orders/42                              the lock's parent
//	/locks/orders/42/9f86d081884c7d65-lock-0000000007    the holder's entry
//	/locks/orders/42/60303ae22b998861-lock-0000000008    a waiter's entry
//
// Every node is persistent: the end of a session deletes nothing. An entry is
// persistent-sequential, one for each contender, and it carries the time at
// which it expires.
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
//	-__READ__    shared
//	-__WRIT__    exclusive, on a read/write lock
//
// The sequence is appended by the server: ten digits, or a minus sign and ten
// digits once the counter overflowed. Names never start with "_c_", which
// go-zookeeper's own lock takes for the start of one of its own.
//
// Entries of other libraries on the same path (zk.Lock and Curator:
// "_c_<guid>-lock-", kazoo: "<uuid>__lock__") parse as contenders without an
// id. They queue with ours, are waited for and are never deleted. A child whose
// name does not parse at all is no contender and is ignored.
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
// holdfast is the version of the format. ttl_ms is the lease that every write
// of the entry renews. expires_at and acquired_at are Unix milliseconds in
// ensemble time, the clock of the ZooKeeper leader; expires_at is there for
// people and tools, and acquired_at is absent until the grant was recorded.
// Unknown keys are ignored. Data of a higher version is waited for and never
// deleted.
//
// The lease of an entry ends at
//
//	max(expires_at, Mtime + ttl_ms), at most Mtime + max(ttl_ms, max_ttl)
//
// where Mtime is the entry's, stamped by the leader, and max_ttl comes from the
// policy of whoever judges. Mtime was stamped after the holder sent the write
// and counted its lease from there, so a wrong clock at the holder cannot
// shorten what others respect. See [Record.Expiry].
//
// # Data of a parent
//
//	{"holdfast":1,"kind":"mutex","tail":"60303ae22b998861-lock-"}
//
// kind is the kind of the lock, or "dir" for an ancestor. tail is the name
// without the sequence of the entry that joined last; since each joiner writes
// it in the transaction that creates its entry, under the version it had read,
// the next joiner knows the name of the entry before it without listing:
// that tail and its own sequence less one. A name so predicted that does not exist
// proves nothing. Where few take turns without a pause the version can be
// foreseen; who joined last is not known then, and takes a listing. released is
// written, under a version that was read, in the transaction that deletes the
// entry of that name as its holder gives the lock back; joiners keep it. Nobody is
// ahead of a holder, and nobody joins ahead of another, so an entry that was right
// behind that one is next: its owner need not list, which in a long queue is far
// more to read. It is written only where a grant is not, after holds too short for
// that. adopted marks a parent that we found empty and did not make: it is used,
// and never deleted. Data that is neither empty nor ours belongs to somebody else,
// and the path is refused.
//
// # Who goes in
//
// [Admit] is the admission rule: of the children of a parent, sorted, it says
// whether one is in, or which earlier one it has to wait for.
package znode
