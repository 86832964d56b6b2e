package reaper

import (
	"errors"
	"math"
	"time"

	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Verdict is the decision on a node.
type Verdict int

// The verdicts. Only nodes with Expired, Orphan, Ancestor and Stale are deleted.
const (
	Live        Verdict = iota // in use, within its lease and the grace, or a request that is still valid
	Expired                    // an entry past its lease and the grace
	Orphan                     // a lock's parent from Holdfast with no child but its anchor, past orphan_after
	Ancestor                   // an empty ancestor from Holdfast, past orphan_after
	Young                      // empty, but not yet past orphan_after
	Kept                       // empty, but kept: by policy, or because Holdfast did not create it
	Foreign                    // not Holdfast's
	Undecodable                // named or marked as Holdfast's, but damaged or of a newer version
	Format1                    // an entry or a parent of format 1, from before the first release
	Unproven                   // undecided without a younger sample of ensemble time, or the epoch's mark
	Stale                      // a stale release request: its entry has gone
)

var verdictNames = [...]string{"live", "expired", "orphan", "ancestor", "young", "kept", "foreign", "undecodable", "format 1", "unproven", "stale"}

// String returns the verdict's name in reports.
func (v Verdict) String() string { return verdictNames[v] }

// Deletes reports whether a node with this verdict is deleted.
func (v Verdict) Deletes() bool { return v == Expired || v == Orphan || v == Ancestor || v == Stale }

// JudgeEntry returns the verdict on a contender's node, from a single read of it, the time and
// the lock's policy. seen is the time, on this process's own monotonic clock, for which the node
// has surely not changed; see [znode.Entry.Judge]. For an entry of format 1 the verdict is
// [Format1]; with [Options].Format1 the reaper judges it like one of the present format. For a live
// entry JudgeEntry also returns the time, grace included, for which it stays live if it is not
// written.
func JudgeEntry(e znode.Entry, now admin.Time, seen time.Duration, p policy.Policy) (Verdict, time.Duration) {
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

// JudgeParent returns the verdict on a node that is no entry, from a single read of it, the
// number of its children that stay, the time and the policy of its name. Anchors do not count as
// children: they go with their parent. seen is as in [JudgeEntry].
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

// anyWindow accepts every sample, however imprecise: the next sweep may delete an empty parent
// just as well.
const anyWindow = time.Duration(math.MaxInt64)

// JudgeRevocation returns the verdict on a release request, from a single read of it.
func JudgeRevocation(r admin.Revocation) Verdict {
	switch {
	case r.Stat.EphemeralOwner != 0, r.Stat.NumChildren > 0:
		return Foreign
	case errors.Is(r.Err, znode.ErrOlder):
		return Format1
	case r.Err != nil:
		return Foreign
	case r.Stale:
		return Stale
	}
	return Live
}
