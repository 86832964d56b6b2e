package queue

import "github.com/holdfast-io/holdfast/lock/znode"

// position is what a contender knows of its place in the queue.
type position struct {
	admitted    bool   // no contender is in the way: it joined alone, or a list with its own entry says so
	predecessor string // node to wait for; "": unknown
	// Seen says that a read showed the predecessor in a session in which our own entry had
	// been written: it was not only predicted, and the server did not lag behind.
	seen bool
	// PredecessorHolds says that the predecessor holds the lock alone, so that none is
	// ahead of it: it was first in a list, or joined as the first of two, or its record
	// tells the grant.
	predecessorHolds bool
	predecessorGone  bool // for certain
	shares           bool // the predecessor is a writer that only reads now, and so do we

	target string // of a semaphore: the entry that stands as many permits ahead as there are
}

// step is what a contender does next.
type step uint8

const (
	enter  step = iota // the lock is ours
	renew              // our turn has come, if our entry is still there: a write tells, and then a list
	follow             // wait for the predecessor
	list               // a list tells our place
)

// admit is the one place that says which contender is in. fresh says that our own lease
// has time left, and that the session's server has seen our entry; without that no
// contender enters, because others may have purged the entry meanwhile. The reason is for
// logs.
//
// That the predecessor is not there proves nothing by itself: its name may be a wrong
// prediction, or the server may lag behind. That a waiter has gone says nothing about
// those before it. But none is ahead of a client that holds the lock alone, and none joins
// ahead of another: so when it has gone, the next one is in.
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

// positionOf is the place of the contender at self by a list.
func positionOf(names []znode.Name, self int, rules znode.Rules) position {
	ahead := znode.WaitsFor(names, self, rules)
	if ahead < 0 {
		return position{admitted: true}
	}
	return position{predecessor: names[ahead].Node, seen: true, predecessorHolds: ahead == 0 && rules.Kind.Alone(names[ahead])}
}
