package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
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
	seen    *sighting            // the contender in the way of a try or a barging request; nil: none so far
	known   map[string]*sighting // a barging request's last reads of other contenders, by name

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
	children, _, err := read(ctx, v.parent)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		v.lock.believe(v.noParent())
		return nil, nil
	case errors.Is(err, zk.ErrNoAuth):
		return nil, fmt.Errorf("%w: list %s: its ACL does not let us", zkconn.ErrDenied, v.parent)
	case err != nil:
		return nil, err
	}
	names := znode.Contenders(children)
	v.lock.sawOthers(len(names) > 1)
	return names, nil
}

// read reads a node; with watch it also sets a watch.
func (v *view) read(ctx context.Context, path string, watch bool) (n zkconn.Node, changed <-chan zk.Event, err error) {
	if watch {
		return v.Conn.Watch(ctx, path)
	}
	n, err = v.Conn.Get(ctx, path)
	return n, nil, err
}
