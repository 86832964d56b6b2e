package znode

import "time"

// RateError is by how much a monotonic clock may run wrong: 500 ppm, as one part in
// so many.
const RateError = 2000

// Stat is what ZooKeeper keeps about a node. It converts from go-zookeeper's.
type Stat struct {
	Czxid          int64 // transaction that created the node
	Mzxid          int64 // transaction that wrote its data last
	Ctime          int64 // stamp of Czxid, Unix ms by the clock of the leader of that time
	Mtime          int64 // stamp of Mzxid
	Version        int32 // writes of the data
	Cversion       int32 // creates and deletes of children
	Aversion       int32 // changes of the ACL
	EphemeralOwner int64 // session that the node ends with; 0: none
	DataLength     int32
	NumChildren    int32
	Pzxid          int64 // transaction that created or deleted a child last
}

// Spent reports whether the counter of sequential children is at its end, so that no contender
// can join any more. It is half of Cversion and NumChildren together, which have wrapped by then.
func (s Stat) Spent() bool { return s.Cversion+s.NumChildren == -2 }

// Epoch is the number of the leader that made a transaction: each leader has one of
// its own, and they rise.
func Epoch(zxid int64) int64 { return zxid >> 32 }

// Verdict says whether what was read may be deleted for its age.
type Verdict uint8

// The verdicts.
const (
	Live     Verdict = iota // not expired, as far as can be known
	Expired                 // for certain
	Unproven                // it cannot be told before there is a younger sample of ensemble time, or the epoch's mark was read
)

var verdictNames = [...]string{"live", "expired", "unproven"}

// String returns the verdict's name.
func (v Verdict) String() string { return verdictNames[v] }

// Now is what a judge knows, at one moment, of the clock of ZooKeeper's leader.
//
// Stamps of one leader can be compared with each other, and those of two leaders
// cannot: their clocks may differ by any amount. Nor can those before and after a
// step of one leader's clock. So time is divided into terms, within which stamps
// compare: one begins with each epoch, and one wherever this judge saw the clock
// displaced. Whatever was written before the present term was written before its
// first stamp; so its lease counts from that.
type Now struct {
	// Zxid is the transaction of the sample that all of this rests on; 0: there was
	// none yet. Only what was written in an earlier one can be judged by it.
	Zxid int64
	// Lower and Upper are what the leader's clock surely shows at least, and at
	// most, since the Unix epoch.
	Lower, Upper time.Duration
	// Term is the first transaction of the present term, and Since the earliest
	// stamp of it that this judge knows.
	Term  int64
	Since time.Duration
	// Marked says that the epoch's mark was looked at, which may have told of an
	// earlier Since. Without it nothing of an earlier term is judged.
	Marked bool
	// Resets is how often the servers may have lost their data, as far as this judge knows.
	// They number transactions anew then, so neither these nor terms of before compare.
	Resets int
}

// Earliest is what the leader's clock shows at least, as a time.
func (n Now) Earliest() time.Time { return time.Unix(0, int64(n.Lower)) }

// Latest is what it shows at most.
func (n Now) Latest() time.Time { return time.Unix(0, int64(n.Upper)) }

// Passed says whether surely more than the given time has passed since the write
// that stat tells of: Expired if so. With Live comes how long to wait before asking
// again. Where the answer hangs on a window that is wider than precision it is
// Unproven, and a younger sample will tell.
func (n Now) Passed(stat Stat, lasts, precision time.Duration) (Verdict, time.Duration) {
	if n.Zxid == 0 || Epoch(stat.Mzxid) > Epoch(n.Zxid) {
		return Unproven, 0
	}
	written := time.Duration(stat.Mtime) * time.Millisecond
	if stat.Mzxid < n.Term {
		if !n.Marked {
			return Unproven, 0
		}
		written = n.Since
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

// later is how long a local clock may take until the leader's has gone on by d, and
// a little more.
func later(d time.Duration) time.Duration { return d + d/RateError + time.Millisecond }

// Entry is a contender's node as one read returned it.
type Entry struct {
	Name
	Stat   Stat   // of the same read
	Record Record // as far as the data could be decoded
	Err    error  // why the data is not a record of this format: ErrNewer, ErrOlder or ErrForeign
}

// ReadEntry takes what a read of a contender's node returned.
func ReadEntry(name Name, data []byte, stat Stat) Entry {
	r, err := DecodeRecord(data)
	return Entry{Name: name, Stat: stat, Record: r, Err: err}
}

// Leased reports whether it is an entry of this library's that this version
// understands. All others, of other libraries, newer versions, or damaged, and those
// that end with a session, are waited for and never deleted.
func (e *Entry) Leased() bool { return e.Ours() && e.Err == nil && e.Stat.EphemeralOwner == 0 }

// Granted reports whether the entry tells that its owner holds the lock.
func (e *Entry) Granted() bool { return e.Leased() && e.Record.Granted() }

// Shares reports whether the entry tells that its writer only reads since: readers may
// enter beside it.
func (e *Entry) Shares() bool { return e.Granted() && e.Record.Shared }

// TTL is how long its lease lasts after each write.
func (e *Entry) TTL() time.Duration { return time.Duration(e.Record.TTL) * time.Millisecond }

// Expires is when people may expect the lease to end, by the clock of the leader
// that stamped it. No verdict rests on it.
func (e *Entry) Expires() time.Time { return time.UnixMilli(e.Stat.Mtime + e.Record.TTL) }

// Judge says whether the entry's lease has ended, and the grace after it. It has if
// the leader's clock proves it, see [Now.Passed]; or this judge's own: seen is for
// how long, on its monotonic clock, it has known this very version of the node. That
// needs no server's clock, and so it holds when elections follow each other faster
// than leases end. With Live comes how long to wait before judging again; for ever,
// if negative: what has no lease only goes by itself.
//
// The verdict is on the version that was read, and so must the delete be.
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

// Node is a node that is no entry, as one read returned it: a lock's parent, an
// ancestor, or anything else.
type Node struct {
	Parent
	Stat Stat  // of the same read
	Err  error // why the data is not a parent's of this format: ErrNewer, ErrOlder or ErrForeign
}

// ReadNode takes what a read of a node that is no entry returned.
func ReadNode(data []byte, stat Stat) Node {
	p, err := DecodeParent(data)
	return Node{Parent: p, Stat: stat, Err: err}
}

// Ours reports whether the node carries our marker.
func (n *Node) Ours() bool { return n.Err == nil && n.Kind != "" && n.Stat.EphemeralOwner == 0 }

// Lock reports whether the node is the parent of a lock of ours.
func (n *Node) Lock() bool {
	return n.Ours() && (n.Kind == Mutex || n.Kind == RW || n.Kind == Semaphore)
}

// Removable reports whether the last one out may delete the node: a lock's parent
// that we made, below which nothing stands but, if anchored, its anchor. Spent says that
// its counter is at its end: then the lock cannot go on with it, and one that was adopted
// goes too.
func (n *Node) Removable(anchored, spent bool) bool {
	children := n.Stat.NumChildren
	if anchored {
		children--
	}
	return n.Lock() && (!n.Adopted || spent) && children == 0
}
