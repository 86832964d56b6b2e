package reaper

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Verdict is what becomes of a node.
type Verdict int

// The verdicts. Only Expired, Orphan and Ancestor are deleted.
const (
	Live        Verdict = iota // in use, or its lease has not run out yet
	Expired                    // an entry of ours past its lease and the grace
	Orphan                     // a lock's empty parent of ours, past orphan_after
	Ancestor                   // an empty ancestor of ours, past orphan_after
	Young                      // empty, but not yet past orphan_after
	Kept                       // empty, and to be kept: by policy, or because it was not made by us
	Foreign                    // not ours
	Undecodable                // named or marked as ours, but damaged or of a newer version
	Unproven                   // would be deleted, but takes a younger sample of ensemble time to tell
)

var verdictNames = [...]string{"live", "expired", "orphan", "ancestor", "young", "kept", "foreign", "undecodable", "unproven"}

// String returns the verdict as reports name it.
func (v Verdict) String() string { return verdictNames[v] }

// Deletes reports whether the verdict is a delete.
func (v Verdict) Deletes() bool { return v == Expired || v == Orphan || v == Ancestor }

// JudgeEntry decides on a contender's node, from the data and Stat of one read,
// the time and the lock's policy.
func JudgeEntry(name znode.Name, data []byte, stat *zk.Stat, now lock.Time, p policy.Policy) Verdict {
	v, _ := judgeEntry(name, data, stat, now, p)
	return v
}

// judgeEntry is JudgeEntry. Of an entry that is live it also returns the end of its
// lease and the grace: as long as it is not written, it is live until then.
func judgeEntry(name znode.Name, data []byte, stat *zk.Stat, now lock.Time, p policy.Policy) (Verdict, time.Time) {
	if !name.Ours() || stat.EphemeralOwner != 0 || stat.NumChildren > 0 {
		return Foreign, time.Time{}
	}
	record, err := znode.DecodeRecord(data)
	if err != nil {
		return Undecodable, time.Time{}
	}
	end := time.UnixMilli(record.Expiry(stat.Mtime, p.MaxTTL.Milliseconds())).Add(p.Grace)
	return past(end, stat, now, Live, Expired), end
}

// JudgeParent decides on a node that is no entry, from the data and Stat of one
// read, how many of its children are to stay, the time and the policy of its name.
func JudgeParent(data []byte, stat *zk.Stat, staying int, now lock.Time, p policy.Policy) Verdict {
	return decodeParent(data, stat).judge(staying, now, p)
}

// parent is a node that is no entry, as it was read.
type parent struct {
	znode.Parent
	err  error // why the data could not be decoded
	stat *zk.Stat
}

func decodeParent(data []byte, stat *zk.Stat) parent {
	p, err := znode.DecodeParent(data)
	return parent{p, err, stat}
}

// ours reports whether the data is.
func (n parent) ours() bool { return n.err == nil && n.Kind != "" }

func (n parent) judge(staying int, now lock.Time, p policy.Policy) Verdict {
	switch {
	case n.stat.EphemeralOwner != 0:
		return Foreign
	case errors.Is(n.err, znode.ErrNewer):
		return Undecodable
	case !n.ours():
		return Foreign
	case staying > 0:
		return Live
	case n.Adopted, p.KeepParent && n.Kind != znode.Dir:
		return Kept
	}
	verdict := Orphan
	if n.Kind == znode.Dir {
		verdict = Ancestor
	}
	end := time.UnixMilli(max(n.stat.Ctime, n.stat.Mtime)).Add(p.OrphanAfter)
	return past(end, n.stat, now, Young, verdict)
}

// onlyChild returns the name of a lock's only child, if that is the entry which
// joined last. ZooKeeper counts the creates and deletes of children in Cversion,
// and numbers entries by the creates. The name is a guess until a node of that name
// is found: the last one may have left before an earlier one.
func (n parent) onlyChild() (znode.Name, bool) {
	if !n.ours() || n.Tail == "" || n.stat.NumChildren != 1 {
		return znode.Name{}, false
	}
	creates := (n.stat.Cversion + n.stat.NumChildren) / 2
	return znode.Parse(znode.Predict(n.Tail, creates-1))
}

// past returns after if the time is surely past the end, and before if it may not
// be. What was written later than the sample of the time cannot be judged by it.
func past(end time.Time, stat *zk.Stat, now lock.Time, before, after Verdict) Verdict {
	switch {
	case !now.Earliest.After(end):
		return before
	case now.Zxid <= stat.Mzxid:
		return Unproven
	}
	return after
}
