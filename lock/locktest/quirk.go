package locktest

import "time"

// Quirks are differences of servers from ZooKeeper, for tests of a client's reaction.
type Quirks struct {
	// Keeper makes the members like ClickHouse Keeper's replicas. Each stamps the writes that it
	// receives by its own clock ([Ensemble.SetClock]). Sessions are numbered from 1, and a client
	// that reconnects gets a new session without an error. There is a node /keeper, but no /zookeeper.
	Keeper bool
	// StaleStat makes the reply to a write have the Stat from before the write.
	StaleStat bool
	// OwnSequence numbers each child within a transaction without counting the earlier children
	// of the same transaction, like servers before 3.4.6.
	OwnSequence bool
	// NoVersions makes the members accept any version in a conditional write or delete, and in a
	// check.
	NoVersions bool
	// StuckClock stamps all writes with the time at which the ensemble was made.
	StuckClock bool
}

// stamp returns the time of a new transaction. taken is the member that received the request for
// it; nil: the leader makes it by itself.
func (e *Ensemble) stamp(taken *member) int64 {
	switch q := e.opts.Quirks; {
	case q.StuckClock:
		return e.made.UnixMilli()
	case q.Keeper && taken != nil:
		return time.Now().Add(taken.clock).UnixMilli()
	}
	return time.Now().Add(e.leader.clock).UnixMilli()
}

// fits reports whether a request that expects the version expected passes; -1 always passes.
func (p *preparer) fits(expected, version int32) bool {
	return expected == -1 || expected == version || p.quirks.NoVersions
}

// counter returns the number of a parent's next sequential child.
func (p *preparer) counter(path string, r record) int32 {
	if n := p.tree.get(path); p.quirks.OwnSequence {
		if n == nil {
			return 0
		}
		return n.cversion
	}
	return r.cversion
}

// adopt replaces ZooKeeper's own nodes in a tree by Keeper's.
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
