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
	Kept                       // empty, but kept by policy or because Holdfast did not create it; or a reserved node
	Foreign                    // not Holdfast's, ephemeral, or an entry or a request with children
	Undecodable                // named or marked as Holdfast's, but damaged or of a newer version
	Unproven                   // undecided without a younger sample of ensemble time, or the epoch's mark
	Stale                      // a release request whose entry no longer exists
)

var verdictNames = [...]string{"live", "expired", "orphan", "ancestor", "young", "kept", "foreign", "undecodable", "unproven", "stale"}

// String returns the verdict's name in reports.
func (v Verdict) String() string { return verdictNames[v] }

// Deletes reports whether a node with this verdict is deleted.
func (v Verdict) Deletes() bool { return v == Expired || v == Orphan || v == Ancestor || v == Stale }

// JudgeEntry returns the verdict on an entry, from a single read of it, the time and the lock's
// policy. seen is a lower bound of the time since the entry's last write, on this process's own
// monotonic clock; 0 if none is known, see [znode.Entry.Judge]. If
// the verdict is [Live], JudgeEntry also returns how long the entry stays live if it is not renewed,
// grace included; otherwise 0.
func JudgeEntry(e znode.Entry, now admin.Time, seen time.Duration, p policy.Rule) (Verdict, time.Duration) {
	switch {
	case !e.Ours() || e.Stat.EphemeralOwner != 0 || e.Stat.NumChildren > 0:
		return Foreign, 0
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

// JudgeParent returns the verdict on a node that is no entry, from a single read of it, the time and
// the policy of its name. staying is the number of its children that stay. Anchors are not counted,
// because they are deleted with their parent. seen is as in [JudgeEntry].
func JudgeParent(n znode.Node, staying int, now admin.Time, seen time.Duration, p policy.Rule) Verdict {
	switch {
	case n.Stat.EphemeralOwner != 0:
		return Foreign
	case errors.Is(n.Err, znode.ErrNewer):
		return Undecodable
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

// anyWindow accepts every sample, however imprecise. With a more precise sample, an empty parent would
// only be deleted earlier.
const anyWindow = time.Duration(math.MaxInt64)

// JudgeRevocation returns the verdict on a release request, from a single read of it.
func JudgeRevocation(r admin.Revocation) Verdict {
	switch {
	case r.Stat.EphemeralOwner != 0, r.Stat.NumChildren > 0:
		return Foreign
	case r.Err != nil:
		return Foreign
	case r.Stale:
		return Stale
	}
	return Live
}
