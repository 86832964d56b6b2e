package reaper

import (
	"errors"
	"math"
	"time"

	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Verdict is what becomes of a node.
type Verdict int

// The verdicts. Only Expired, Orphan, Ancestor and Moot are deleted.
const (
	Live        Verdict = iota // in use, or its lease has not run out yet
	Expired                    // an entry of ours past its lease and the grace
	Orphan                     // a lock's parent of ours with nothing below it but its anchor, past orphan_after
	Ancestor                   // an empty ancestor of ours, past orphan_after
	Young                      // empty, but not yet past orphan_after
	Kept                       // empty, and to be kept: by policy, or because it was not made by us
	Foreign                    // not ours
	Undecodable                // named or marked as ours, but damaged or of a newer version
	Format1                    // an entry or a parent of format 1, from before the first release
	Unproven                   // it takes a fresher sample of ensemble time, or the mark of the leader's epoch, to tell
	Moot                       // a request to give up a lock, to an entry that is gone
)

var verdictNames = [...]string{"live", "expired", "orphan", "ancestor", "young", "kept", "foreign", "undecodable", "format 1", "unproven", "moot"}

// String returns the verdict as reports name it.
func (v Verdict) String() string { return verdictNames[v] }

// Deletes reports whether the verdict is a delete.
func (v Verdict) Deletes() bool { return v == Expired || v == Orphan || v == Ancestor || v == Moot }

// JudgeEntry decides on a contender's node as one read returned it, by the time and the
// lock's policy. Seen is for how long, by this process's own monotonic clock, the node
// has surely been as it was read; see [znode.Entry.Judge]. An entry of format 1 is judged
// as [Format1] alone; [Options] can have it treated as one of the present format.
func JudgeEntry(e znode.Entry, now admin.Time, seen time.Duration, p policy.Policy) Verdict {
	v, _ := judgeEntry(e, now, seen, p)
	return v
}

// judgeEntry is JudgeEntry. Of an entry that is live it also returns for how long it
// will be, the grace included, as long as it is not written.
func judgeEntry(e znode.Entry, now admin.Time, seen time.Duration, p policy.Policy) (Verdict, time.Duration) {
	switch {
	case !e.Ours() || e.Stat.EphemeralOwner != 0 || e.Stat.NumChildren > 0:
		return Foreign, 0
	case errors.Is(e.Err, znode.ErrOlder):
		return Format1, 0
	case e.Err != nil:
		return Undecodable, 0
	}
	v, wait := e.Judge(now, p.Grace, seen)
	switch v {
	case znode.Expired:
		return Expired, 0
	case znode.Unproven:
		return Unproven, 0
	}
	return Live, wait
}

// JudgeParent decides on a node that is no entry, as one read returned it, by how many
// of its children are to stay, the time and the policy of its name. Anchors are no
// children in this sense: they go with their parent. Seen is as in [JudgeEntry].
func JudgeParent(n znode.Node, staying int, now admin.Time, seen time.Duration, p policy.Policy) Verdict {
	switch {
	case n.Stat.EphemeralOwner != 0:
		return Foreign
	case errors.Is(n.Err, znode.ErrNewer):
		return Undecodable
	case errors.Is(n.Err, znode.ErrOlder):
		return Format1
	case !n.Ours():
		return Foreign
	case n.Kind == znode.Mark, n.Kind == znode.Asked:
		return Kept
	case staying > 0:
		return Live
	case n.Adopted, p.KeepParent && n.Kind != znode.Dir:
		return Kept
	}
	empty := Orphan
	if n.Kind == znode.Dir {
		empty = Ancestor
	}
	if seen > p.OrphanAfter+p.OrphanAfter/znode.RateError {
		return empty
	}
	switch v, _ := now.Passed(n.Stat, p.OrphanAfter, anyWindow); v {
	case znode.Expired:
		return empty
	case znode.Unproven:
		return Unproven
	}
	return Young
}

// anyWindow is a precision that every sample has: an empty parent may as well be
// deleted by the next sweep.
const anyWindow = time.Duration(math.MaxInt64)

// JudgeRevocation decides on a request to give up a lock, as one read returned it.
func JudgeRevocation(r admin.Revocation) Verdict {
	switch {
	case r.Stat.EphemeralOwner != 0, r.Stat.NumChildren > 0:
		return Foreign
	case errors.Is(r.Err, znode.ErrOlder):
		return Format1
	case r.Err != nil:
		return Foreign
	case r.Moot:
		return Moot
	}
	return Live
}
