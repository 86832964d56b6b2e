package locktest

import "time"

// Quirks are what servers do otherwise than ZooKeeper, for tests of how a client takes
// that.
type Quirks struct {
	// Keeper has the members be as ClickHouse Keeper's replicas are: each stamps the
	// writes that it takes by its own clock ([Ensemble.SetClock]); sessions are numbered
	// from 1, and a client that comes back silently gets a new one; there is a node
	// /keeper, and none called /zookeeper.
	Keeper bool
	// StaleStat has the reply to a write carry the Stat of before it.
	StaleStat bool
	// OwnSequence has each child within a transaction numbered as if those before it in
	// the same transaction were not there, as by servers before 3.4.6.
	OwnSequence bool
	// NoVersions has any version fit.
	NoVersions bool
	// StuckClock has all writes stamped with the time at which the ensemble was made.
	StuckClock bool
}

// stamp is the time of a transaction that a member has taken, nil for the leader's own.
func (e *Ensemble) stamp(taken *member) int64 {
	switch q := e.opts.Quirks; {
	case q.StuckClock:
		return e.made.UnixMilli()
	case q.Keeper && taken != nil:
		return time.Now().Add(taken.clock).UnixMilli()
	}
	return time.Now().Add(e.leader.clock).UnixMilli()
}

// fits reports whether the version that a request expects is the node's.
func (p *preparer) fits(expected, version int32) bool {
	return expected == -1 || expected == version || p.quirks.NoVersions
}

// counter is what a parent's next sequential child is numbered with.
func (p *preparer) counter(path string, r record) int32 {
	if n := p.tree.get(path); p.quirks.OwnSequence {
		if n == nil {
			return 0
		}
		return n.cversion
	}
	return r.cversion
}

// adopt gives a tree the nodes that Keeper has of its own instead of ZooKeeper's.
func (q Quirks) adopt(t *tree) {
	if !q.Keeper {
		return
	}
	for _, path := range []string{"/zookeeper/quota", "/zookeeper/config", "/zookeeper"} {
		t.delete(0, path)
	}
	for _, path := range []string{"/keeper", "/keeper/api_version"} {
		parent, name := split(path)
		t.nodes[parent].children.add(name)
		t.nodes[path] = &node{acl: worldRead, data: []byte{}}
	}
}
