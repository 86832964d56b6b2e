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
	if !name.Ours() || stat.EphemeralOwner != 0 || stat.NumChildren > 0 {
		return Foreign
	}
	record, err := znode.DecodeRecord(data)
	if err != nil {
		return Undecodable
	}
	end := time.UnixMilli(record.Expiry(stat.Mtime, p.MaxTTL.Milliseconds())).Add(p.Grace)
	return past(end, stat, now, Live, Expired)
}

// JudgeParent decides on a node that is no entry, from the data and Stat of one
// read, how many of its children are to stay, the time and the policy of its name.
func JudgeParent(data []byte, stat *zk.Stat, staying int, now lock.Time, p policy.Policy) Verdict {
	if stat.EphemeralOwner != 0 {
		return Foreign
	}
	parent, err := znode.DecodeParent(data)
	switch {
	case errors.Is(err, znode.ErrNewer):
		return Undecodable
	case err != nil, parent.Kind == "":
		return Foreign
	case staying > 0:
		return Live
	case parent.Adopted, p.KeepParent && parent.Kind != znode.Dir:
		return Kept
	}
	verdict := Orphan
	if parent.Kind == znode.Dir {
		verdict = Ancestor
	}
	end := time.UnixMilli(max(stat.Ctime, stat.Mtime)).Add(p.OrphanAfter)
	return past(end, stat, now, Young, verdict)
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
