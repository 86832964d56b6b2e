package znode

import (
	"time"
)

// RateError is the largest rate error of a monotonic clock, 500 ppm, as one part in 2000.
const RateError = 2000

// Stat is ZooKeeper's metadata of a node. It converts from go-zookeeper's Stat.
type Stat struct {
	Czxid          int64 // transaction that created the node
	Mzxid          int64 // transaction that wrote its data last
	Ctime          int64 // stamp of Czxid, Unix ms by the clock of the leader of that time
	Mtime          int64 // stamp of Mzxid
	Version        int32 // number of writes of the data
	Cversion       int32 // number of creates and deletes of children
	Aversion       int32 // number of changes of the ACL
	EphemeralOwner int64 // session that owns the node; 0: the node is not ephemeral
	DataLength     int32
	NumChildren    int32
	Pzxid          int64 // transaction that created or deleted a child last
}

// Counter returns the sequence of the next sequential child, which is the number of creates below the
// node: half of the sum of Cversion and NumChildren, which wraps.
func (s Stat) Counter() int32 { return int32(uint32(s.Cversion+s.NumChildren) / 2) }

// WornCounter is the half of a counter of sequential children. From here on clients end the counter of
// a lock when they can, see [Stat.Worn].
const WornCounter = 1 << 30

// Worn reports whether more than half of the counter of sequential children is used up. A client that
// leaves such a lock alone deletes the lock's node, even if the lock is in frequent use: the next node
// counts from 0.
func (s Stat) Worn() bool { return s.Counter() >= WornCounter }

// Verdict says whether an entry's lease and the grace have ended.
type Verdict uint8

// The verdicts.
const (
	Live     Verdict = iota // not expired, as far as the judge knows
	Expired                 // certainly expired
	Unproven                // unknown without a newer sample of ensemble time, or the epoch's mark
)

var verdictNames = [...]string{"live", "expired", "unproven"}

// String returns the verdict's name.
func (v Verdict) String() string { return verdictNames[v] }

// Now is a judge's knowledge of the leader's clock at one moment.
//
// Stamps of two leaders cannot be compared: their clocks may differ by any amount. Nor can stamps
// from before and after a step of one leader's clock. So time is divided into terms, and stamps are
// compared only within a term. A term begins with each epoch, and when steps of the clock that this
// judge has detected may add up to more than 50 ms. An entry written before the present term was
// written before the term's first stamp, so its lease counts from that stamp.
type Now struct {
	// Zxid is the transaction of the sample that this knowledge comes from; 0: no sample yet. The
	// sample can judge only earlier writes.
	Zxid int64
	// Lower and Upper bound the present time of the leader's clock, since the Unix epoch.
	Lower, Upper time.Duration
	// Term is the first transaction of the present term. Since is the term's earliest stamp that
	// this judge knows.
	Term  int64
	Since time.Duration
	// Marked says that the judge has read the epoch's mark, which may have given an earlier
	// Since. Without it, writes of earlier terms cannot be judged.
	Marked bool
	// Resets counts how often the servers may have lost their data, as far as this judge knows.
	// Servers that have lost data number transactions again from an earlier one, so transactions
	// and terms from before and after cannot be compared.
	Resets int
	// Sessions counts the resets and the new sessions of this judge. Do not compare transactions or
	// terms of different sessions. The servers may have lost their data between two sessions. The
	// judge does not notice the loss if the servers have since made more transactions than they had
	// made before it.
	Sessions int
	// Doubted says that Term is of an earlier session. A write numbered below Term may be newer
	// than Term.
	Doubted bool
}

// Earliest returns the lower bound of the leader's clock.
func (n Now) Earliest() time.Time { return time.Unix(0, int64(n.Lower)) }

// Latest returns the upper bound of the leader's clock.
func (n Now) Latest() time.Time { return time.Unix(0, int64(n.Upper)) }

// Passed returns Expired if more than lasts has surely passed since the write of stat. Otherwise it
// returns Live, with the time until the next check, or Unproven. It is Unproven if the sample is
// too old to judge the write, if the epoch's mark is needed and was not read, or if the bounds are
// further apart than precision and the answer depends on that. Then a newer sample, or the mark,
// decides.
func (n Now) Passed(stat Stat, lasts, precision time.Duration) (Verdict, time.Duration) {
	if n.Zxid == 0 || Epoch(stat.Mzxid) > Epoch(n.Zxid) {
		return Unproven, 0
	}
	if stat.Mzxid < n.Term && !n.Marked {
		return Unproven, 0
	}
	end := n.written(stat) + lasts
	switch {
	case n.Lower > end && n.Zxid > stat.Mzxid:
		return Expired, 0
	case n.Lower > end:
		return Unproven, 0
	case n.Upper-n.Lower <= precision:
		return Live, later(end - n.Lower)
	case n.Upper > end:
		return Unproven, 0
	}
	return Live, later(end - n.Upper)
}

// written returns the time from which a lease counts that began with the write of stat: the write's
// stamp, or the first stamp of the term if the write is of an earlier one.
func (n Now) written(stat Stat) time.Duration {
	stamp := time.Duration(stat.Mtime) * time.Millisecond
	switch {
	case stat.Mzxid >= n.Term:
		return stamp
	case n.Doubted:
		return max(n.Since, stamp)
	}
	return n.Since
}

// Ends returns the time lasts after the write of stat, as Passed counts it: by the clock of the
// present leader. Without a sample, or a transaction in stat, it counts from the stamp. It is for
// people; no verdict uses it.
func (n Now) Ends(stat Stat, lasts time.Duration) time.Time {
	if n.Zxid == 0 || stat.Mzxid == 0 {
		return time.UnixMilli(stat.Mtime).Add(lasts)
	}
	return time.Unix(0, int64(n.written(stat)+lasts))
}

// later returns a duration of the local clock in which the leader's clock surely advances by d.
func later(d time.Duration) time.Duration { return d + d/RateError + time.Millisecond }

// Entry is a contender's node, from a single read.
type Entry struct {
	Name
	Stat   Stat   // from the same read
	Record Record // as far as the data could be decoded
	Err    error  // ErrNewer or ErrForeign if the data is not a record of this format
}

// ReadEntry returns the entry with that name, from the data and the Stat of one read.
func ReadEntry(name Name, data []byte, stat Stat) Entry {
	r, err := DecodeRecord(data)
	return Entry{Name: name, Stat: stat, Record: r, Err: err}
}

// Leased reports whether the entry is Holdfast's, of this version, and not ephemeral. Clients wait
// for all other entries and never delete them: entries of other libraries or newer versions,
// damaged entries, and ephemeral ones.
func (e *Entry) Leased() bool { return e.Ours() && e.Err == nil && e.Stat.EphemeralOwner == 0 }

// Granted reports whether the entry's record shows that its owner holds the lock.
func (e *Entry) Granted() bool { return e.Leased() && e.Record.Granted() }

// Shares reports whether the entry is a downgraded writer's: its record shows that it only reads,
// so readers may enter beside it.
func (e *Entry) Shares() bool { return e.Granted() && e.Record.Shared }

// TTL returns the length of the lease after each write.
func (e *Entry) TTL() time.Duration { return time.Duration(e.Record.TTL) * time.Millisecond }

// Expires returns the expected end of the lease, see [Now.Ends].
func (e *Entry) Expires(now Now) time.Time { return now.Ends(e.Stat, e.TTL()) }

// Judge returns Expired if the leader's clock, see [Now.Passed], or the judge's own monotonic clock
// proves that the entry's lease and the grace have ended. seen is how long the judge has known this
// version of the node, by its own clock. The proof by the judge's own clock needs no server's
// clock, so it works even if elections follow each other faster than leases end. With Live, Judge
// returns the time until the next check; negative means never, because an entry that is not Leased
// does not expire.
//
// The verdict is on the version that was read: a delete must give that version.
func (e *Entry) Judge(now Now, grace, seen time.Duration) (Verdict, time.Duration) {
	if !e.Leased() {
		return Live, -1
	}
	lasts := e.TTL() + grace
	own := later(lasts) - seen
	if own < 0 {
		return Expired, 0
	}
	v, wait := now.Passed(e.Stat, lasts, grace/4)
	if v == Live {
		wait = min(wait, own+time.Millisecond)
	}
	return v, wait
}

// Node is a node that is no entry, from a single read: a lock's parent, an ancestor, or any other
// node.
type Node struct {
	Parent
	Stat Stat  // from the same read
	Err  error // ErrNewer or ErrForeign if the data is not a parent's of this format
}

// ReadNode returns a node that is no entry, from the data and the Stat of one read.
func ReadNode(data []byte, stat Stat) Node {
	p, err := DecodeParent(data)
	return Node{Parent: p, Stat: stat, Err: err}
}

// Ours reports whether Holdfast wrote the node's data, and the node is not ephemeral.
func (n *Node) Ours() bool { return n.Err == nil && n.Kind != "" && n.Stat.EphemeralOwner == 0 }

// Lock reports whether the node is the parent of a Holdfast lock.
func (n *Node) Lock() bool { return n.Ours() && n.Kind.IsLock() }

// ParentRemovable reports whether the last client to leave may delete the node: a lock's parent that
// Holdfast created, without children except its anchor. anchored says that the node has its anchor.
// spent says that the node's counter is at its end. Then the lock cannot continue with this node,
// so an adopted parent is deleted too.
func (n *Node) ParentRemovable(anchored, spent bool) bool {
	children := n.Stat.NumChildren
	if anchored {
		children--
	}
	return n.Lock() && (!n.Adopted || spent) && children == 0
}
