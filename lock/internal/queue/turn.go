package queue

import "github.com/holdfast-io/holdfast/lock/znode"

// position is what a contender knows of its place in the queue.
type position struct {
	admitted    bool   // nobody is in the way: it joined alone, a listing with its own entry in it says so, or a release of who was right ahead
	predecessor string // node to wait for; "": unknown
	// Seen says that the predecessor was there when our own entry was: not only
	// foretold, and not shown by a server that lags behind our own entry.
	seen bool
	// PredecessorHolds says that the predecessor holds the lock alone, so that nobody is
	// before it: it was listed first, joined as the first of two, or tells its grant; and
	// the kind of the lock and its role are such, see [znode.Kind.Alone]. Or that it is the
	// last of the readers who are all that can be ahead.
	predecessorHolds bool
	between          []string // readers who may be ahead when the predecessor has gone: of a writer, see pastReaders
	shares           bool     // the predecessor holds the lock and tells that it shares it with us
	predecessorGone  bool     // for certain
	released         bool     // a release tells that nobody was ahead of the predecessor any more
}

// step is what a contender does next.
type step uint8

const (
	enter  step = iota // the lock is ours
	renew              // our turn has come, if our own entry is still there: a write tells, and then a listing
	follow             // wait for the predecessor
	list               // a listing tells our place
	sift               // see which readers are there still
)

// decide is the one place that says who is in. Fresh says that our own lease has time
// left, and that the session's server has seen our entry; without that nobody enters,
// because others may have purged the entry meanwhile. The reason is for logs.
//
// That the predecessor is not there proves nothing by itself: it may never have been
// (a foretold name), or stand in a server's future. And that one who waited has gone
// says nothing about those before it. Only after one who held the lock alone nobody else
// is left: nobody is ahead of such a holder, and nobody joins ahead of another. For the
// same reason nobody is in the way of a reader but a writer ahead that shares.
func decide(p position, fresh bool) (next step, reason string) {
	switch {
	case p.admitted:
		reason = "nobody is ahead"
	case p.predecessor == "":
		return list, "who is ahead is unknown"
	case p.shares:
		reason = "the writer ahead only reads"
	case !p.predecessorGone:
		return follow, "somebody is ahead"
	case !p.seen:
		return list, "who was foretold is not there"
	case !p.predecessorHolds && !p.released:
		return list, "one who may have waited has gone"
	case len(p.between) > 0:
		return sift, "readers may be in"
	case p.predecessorHolds:
		reason = "the holder has gone"
	default:
		reason = "a release is known"
	}
	if !fresh {
		return renew, reason
	}
	return enter, reason
}

// positionOf is where the contender at self stands by a listing.
func positionOf(names []znode.Name, self int, rules znode.Parent) position {
	ahead := znode.Admit(names, self, rules)
	if ahead < 0 {
		return position{admitted: true}
	}
	return position{predecessor: names[ahead].Node, seen: true, predecessorHolds: ahead == 0 && rules.Kind.Alone(names[ahead])}
}
