package znode

import "time"

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
	EphemeralOwner int64 // session that the node ends with; 0: none
	DataLength     int32
	NumChildren    int32
	Pzxid          int64 // transaction that created or deleted a child last
}

// Spent reports whether the counter of sequential children is at its end, so that no contender
// can join any more. The counter is half of Cversion plus NumChildren, which have wrapped by
// then.
func (s Stat) Spent() bool { return s.Cversion+s.NumChildren == -2 }

// Epoch returns the epoch of a transaction. Each leader has its own epoch, and epochs rise.
func Epoch(zxid int64) int64 { return zxid >> 32 }

// Verdict says whether an entry or node has outlived its time.
type Verdict uint8

// The verdicts.
const (
	Live     Verdict = iota // not expired, as far as is known
	Expired                 // certainly expired
	Unproven                // needs a younger sample of ensemble time, or the epoch's mark
)

var verdictNames = [...]string{"live", "expired", "unproven"}

// String returns the verdict's name.
func (v Verdict) String() string { return verdictNames[v] }

// Now is a judge's knowledge of the leader's clock at one moment.
//
// Stamps of two leaders cannot be compared: their clocks may differ by any amount. Nor can stamps
// from before and after a step of one leader's clock. So time is divided into terms; stamps
// compare only within a term. A term begins with each epoch, and with each displacement of the
// clock that this judge detects. An entry written before the present term was written before the
// term's first stamp, so its lease counts from that stamp.
type Now struct {
	// Zxid is the transaction of the sample that this knowledge comes from; 0: no sample yet. It
	// only serves to judge earlier writes.
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
	// They then number transactions anew, so earlier transactions and terms do not compare.
	Resets int
	// Sessions counts the resets and the new sessions of this judge. Do not compare transactions
	// or terms of different sessions: in between the servers may have lost their data. The judge
	// does not notice that if they have made more transactions since than before.
	Sessions int
	// Doubted says that Term is of an earlier session. A write numbered below it may be younger.
	Doubted bool
}

// Earliest returns the lower bound of the leader's clock.
func (n Now) Earliest() time.Time { return time.Unix(0, int64(n.Lower)) }

// Latest returns the upper bound of the leader's clock.
func (n Now) Latest() time.Time { return time.Unix(0, int64(n.Upper)) }

// Passed returns Expired if surely more than the time lasts has passed since the write of stat.
// With Live it returns the time until the next check. If the bounds are further apart than
// precision and the answer depends on that, it returns Unproven: a younger sample will decide.
func (n Now) Passed(stat Stat, lasts, precision time.Duration) (Verdict, time.Duration) {
	if n.Zxid == 0 || Epoch(stat.Mzxid) > Epoch(n.Zxid) {
		return Unproven, 0
	}
	written := time.Duration(stat.Mtime) * time.Millisecond
	if stat.Mzxid < n.Term {
		if !n.Marked {
			return Unproven, 0
		}
		if written = n.Since; n.Doubted {
			written = max(written, time.Duration(stat.Mtime)*time.Millisecond)
		}
	}
	end := written + lasts
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

// later returns a local duration in which the leader's clock surely goes on by d, and a little
// more.
func later(d time.Duration) time.Duration { return d + d/RateError + time.Millisecond }

// Entry is a contender's node, from a single read.
type Entry struct {
	Name
	Stat   Stat   // from the same read
	Record Record // as far as the data could be decoded
	Err    error  // ErrNewer, ErrOlder or ErrForeign if the data is no record of this format
}

// ReadEntry returns the entry with that name, from the data and the Stat of one read.
func ReadEntry(name Name, data []byte, stat Stat) Entry {
	r, err := DecodeRecord(data)
	return Entry{Name: name, Stat: stat, Record: r, Err: err}
}

// Leased reports whether the entry is ours and of this version. Clients wait for all other
// entries and never delete them: those of other libraries or newer versions, damaged ones, and
// those that end with a session.
func (e *Entry) Leased() bool { return e.Ours() && e.Err == nil && e.Stat.EphemeralOwner == 0 }

// Granted reports whether the entry's record shows that its owner holds the lock.
func (e *Entry) Granted() bool { return e.Leased() && e.Record.Granted() }

// Shares reports whether the entry's record shows that its writer now only reads: readers may
// enter beside it.
func (e *Entry) Shares() bool { return e.Granted() && e.Record.Shared }

// TTL returns the length of the lease after each write.
func (e *Entry) TTL() time.Duration { return time.Duration(e.Record.TTL) * time.Millisecond }

// Expires returns the expected end of the lease, by the clock of the leader that stamped it. It
// is for people; no verdict uses it.
func (e *Entry) Expires() time.Time { return time.UnixMilli(e.Stat.Mtime + e.Record.TTL) }

// Judge decides whether the entry's lease and the grace have ended. They have if the leader's
// clock proves it, see [Now.Passed], or this judge's own clock does: seen is the time, on its
// monotonic clock, for which it has known this version of the node. The second proof needs no
// server's clock, so it works even if elections follow each other faster than leases end. With
// Live, Judge returns the time until the next check; negative means never, because an entry
// without a lease does not expire.
//
// The verdict is on the version that was read, so delete on that version.
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

// Node is a node that is no entry, from a single read: a lock's parent, an ancestor, or anything
// else.
type Node struct {
	Parent
	Stat Stat  // from the same read
	Err  error // ErrNewer, ErrOlder or ErrForeign if the data is no parent's of this format
}

// ReadNode returns a node that is no entry, from the data and the Stat of one read.
func ReadNode(data []byte, stat Stat) Node {
	p, err := DecodeParent(data)
	return Node{Parent: p, Stat: stat, Err: err}
}

// Ours reports whether the node has our marker.
func (n *Node) Ours() bool { return n.Err == nil && n.Kind != "" && n.Stat.EphemeralOwner == 0 }

// Lock reports whether the node is the parent of a Holdfast lock.
func (n *Node) Lock() bool { return n.Ours() && n.Kind.IsLock() }

// Removable reports whether the last client to leave may delete the node. It must be a lock's
// parent that we created, without children except its anchor if it is anchored. If its counter is
// at its end (spent), the lock cannot go on with it, so an adopted parent goes too.
func (n *Node) Removable(anchored, spent bool) bool {
	children := n.Stat.NumChildren
	if anchored {
		children--
	}
	return n.Lock() && (!n.Adopted || spent) && children == 0
}
