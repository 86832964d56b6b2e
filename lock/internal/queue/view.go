package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// view is what a request reads of a lock: the parent, the contenders, and which of them have
// expired, so that it deletes them. It needs no entry.
type view struct {
	*Queue
	Request
	parent string // path of the lock
	lock   *lockState

	blocker func(*Blocked)       // receives the contender in the way
	trouble error                // see [Blocked.Trouble]
	known   map[string]*sighting // the last sighting of each entry that was read and is still listed, by name

	own     znode.Name      // the entry that this contender has created; zero: none
	counter int32           // of the parent, when it was last listed: the sequence of the next entry
	copied  map[string]bool // copied entries, by name, see copiedFirst

	anchorless string // generation whose anchor a join has not found

	resizing int32  // number of permits when a resize began; 0: no resize
	checked  string // generation whose number of permits was checked, and is not checked again; or anyGeneration
	immune   int32  // as a candidate, it does not yield to priorities up to this one
}

// newView returns a view of the request's lock that records in the lock state what it reads. A view
// that only observes has a lock state of its own, because it does not count as a use of the lock.
func newView(q *Queue, r Request, lock *lockState) view {
	return view{Queue: q, Request: r, parent: q.Path(r.Lock), lock: lock, blocker: func(*Blocked) {}}
}

// path returns the path of an entry of the lock.
func (v *view) path(n znode.Name) string { return v.parent + "/" + n.Node }

// list returns the lock's contenders in order; none if there is no parent. caughtUp asks the
// server to catch up with the leader first. list records in the lock state that there is no parent,
// or whether there are several contenders.
func (v *view) list(ctx context.Context, caughtUp bool) ([]znode.Name, error) {
	read := v.Conn.Children
	if caughtUp {
		read = v.Conn.ChildrenSynced
	}
	children, stat, err := read(ctx, v.parent)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		v.lock.believe(v.noParent())
		return nil, nil
	case errors.Is(err, zk.ErrNoAuth):
		return nil, denied("list", v.parent)
	case err != nil:
		return nil, err
	}
	names := v.contenders(children, stat)
	v.lock.sawOthers(len(names) > 1)
	return names, nil
}

// contenders returns the contenders among the children of the parent, in order. It notes the parent's
// counter, and forgets the sightings of entries that have gone.
func (v *view) contenders(children []string, stat *zk.Stat) []znode.Name {
	names := znode.Contenders(children)
	if len(names) == 0 { // there may be no parent
		return nil
	}
	v.counter = znode.Stat(*stat).Counter()
	v.copiedFirst(names)
	known := v.known
	v.known = nil
	for _, n := range names {
		if s := known[n.Node]; s != nil {
			v.remember(n, s, nil)
		}
	}
	return names
}
