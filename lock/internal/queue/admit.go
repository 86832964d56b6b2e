package queue

import "github.com/holdfast-io/holdfast/lock/znode"

// position is what a contender knows of its position in the queue. The zero value: nothing.
type position struct {
	admitted    bool   // no contender is in the way, by the join or by a list that has this contender's entry
	predecessor string // node to wait for; "": unknown
	// seen: a settled read showed the predecessor. Settled means that the contender's own entry had
	// been written in the session of the read. So the predecessor was not only predicted, and the
	// server did not lag behind.
	seen bool
	// predecessorHolds: the predecessor holds the lock alone, so no contender is ahead of it. It
	// was first in a list, or joined as the first of two, or its record shows the grant.
	predecessorHolds bool
	predecessorGone  bool // the predecessor has certainly gone
	shares           bool // the predecessor is a writer that only reads now, and the contender only reads

	target     string // semaphore: the target, see permits.go; "": unknown
	targetGone bool   // the target has certainly gone
}

type step uint8

const (
	enter  step = iota // the contender's turn has come
	renew              // its turn has come if its entry still exists: write the entry, then list
	follow             // wait for the predecessor
	list               // list to find its position
)

// admit returns the next step of a contender at the position p, and the reason, for logs. Only
// admit lets a contender enter, also one that attaches; readers who share a held entry, and local
// handoffs, continue an entry that has entered. fresh is [lease.Entry.Fresh] of the contender's entry.
// If the entry is not fresh, the contender does not enter, because other clients may have purged the
// entry.
//
// A missing predecessor alone proves nothing: its name may be a wrong prediction, or the server
// may lag behind. A waiter that has gone proves nothing about the contenders ahead of it. But no
// contender is ahead of a lone holder, and none joins ahead of another. So when a lone holder has
// gone, the next contender's turn has come.
func admit(p position, fresh bool) (next step, reason string) {
	switch {
	case p.admitted:
		reason = "no contender is ahead"
	case p.predecessor == "":
		return list, "the predecessor is unknown"
	case p.shares:
		reason = "the writer ahead only reads"
	case !p.predecessorGone:
		return follow, "a contender is ahead"
	case !p.seen:
		return list, "the predicted predecessor is not there"
	case !p.predecessorHolds:
		return list, "a contender that may have waited has gone"
	default:
		reason = "the holder has gone"
	}
	if !fresh {
		return renew, reason
	}
	return enter, reason
}

// positionOf returns the position of the contender at self in a list.
func positionOf(names []znode.Name, self int, rules znode.Rules) position {
	ahead := znode.WaitsFor(names, self, rules)
	if ahead < 0 {
		return position{admitted: true}
	}
	return position{predecessor: names[ahead].Node, seen: true, predecessorHolds: ahead == 0 && rules.Kind.Alone(names[ahead])}
}

// alone reports whether a new entry, of that many contenders, is the only one and need not wait for
// more permits than there are.
func (d *draft) alone(contenders int32) bool {
	return contenders == 1 && d.by.Permits <= d.parent.anchor.Capacity()
}

// positionAtJoin returns the position of a new entry. contenders is the number of contenders right
// after the create, the new one included. The position is zero if a list must find it.
func (d *draft) positionAtJoin(own znode.Name, contenders int32) position {
	switch {
	case own.Overflowed():
		return position{}
	case d.alone(contenders):
		return position{admitted: true}
	}
	return kindOf(d.by.Kind).atJoin(d, own, contenders)
}
