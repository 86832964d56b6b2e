package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Watcher looks at who holds a lock, without an entry of its own. It belongs to one
// goroutine, and is to be closed.
//
// Nobody joins ahead of another, so it watches the entry that is first, and the lock's
// children only while there is none. As any judge it reads each renewal.
type Watcher struct {
	*contender
	first    znode.Name      // of the queue, as far as is known; no node: it is to be found
	youngest int64           // Czxid of the last holder that was seen
	changed  <-chan zk.Event // of what was seen last
	most     time.Duration   // for which that is good; negative: until it changes
}

// NewWatcher returns a watcher of the request's lock.
func (q *Queue) NewWatcher(r Request) *Watcher { return &Watcher{contender: q.newContender(r)} }

// Close ends it.
func (w *Watcher) Close() { w.closeDoor(w.door) }

// Holder returns the entry of who holds the lock: the first one, if it tells its grant,
// and by the verdict of those who wait has not expired. It is nil if nobody does. Caught
// up asks the server to be as current as it can be. A holder is never followed by one who
// held the lock before it.
func (w *Watcher) Holder(ctx context.Context, caughtUp bool) (*znode.Entry, error) {
	for {
		first, err := w.look(ctx, caughtUp)
		if err != nil || first == nil {
			return nil, err
		}
		if first.Stat.Czxid < w.youngest { // the server lags behind the one before
			if caughtUp {
				err = pause(ctx, pollEvery)
			}
			if caughtUp = true; err != nil {
				return nil, err
			}
			continue
		}
		knew := w.Clock.Now()
		verdict, wait := w.judge(w.outlived, knew)
		switch w.most = wait; {
		case verdict == znode.Live && !first.Granted():
			return nil, nil
		case verdict == znode.Live:
			w.youngest = first.Stat.Czxid
			return first, nil
		case verdict == znode.Expired && caughtUp:
			w.most = first.TTL() // that it is renewed after all can be missed over a reconnect
			return nil, nil
		case verdict == znode.Expired:
			caughtUp = true // perhaps our server has not heard of the last renewal yet
			continue
		}
		err = w.Clock.Prove(ctx, knew, first.Stat.Mzxid)
		if errors.Is(err, zkconn.ErrDenied) || errors.Is(err, zk.ErrNoNode) {
			err = pause(ctx, pollEvery) // our own observation will tell
		}
		if err != nil {
			return nil, err
		}
	}
}

// Await waits until the holder may be another than the last one that was returned.
func (w *Watcher) Await(ctx context.Context) error { return await(ctx, w.changed, w.most) }

// look reads the first entry of the queue, nil if there is none, and watches it.
func (w *Watcher) look(ctx context.Context, caughtUp bool) (*znode.Entry, error) {
	for {
		watch := w.Conn.Watch
		if w.first.Node == "" {
			if err := w.find(ctx, caughtUp); err != nil || w.first.Node == "" {
				return nil, err
			}
		} else if caughtUp {
			watch = w.Conn.WatchSynced
		}
		path := w.parent + "/" + w.first.Node
		n, changed, err := watch(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode): // it has left
			w.first = znode.Name{}
			continue
		case errors.Is(err, zk.ErrNoAuth):
			return nil, fmt.Errorf("%w: read %s: its ACL does not let us", zkconn.ErrDenied, path)
		case err != nil:
			return nil, err
		}
		w.changed = changed
		first := znode.ReadEntry(w.first, n.Data, znode.Stat(*n.Stat))
		w.outlived = w.observed(w.outlived, first)
		return &first, nil
	}
}

// find lists who is first. If nobody is, it watches for the next one who comes.
func (w *Watcher) find(ctx context.Context, caughtUp bool) error {
	for {
		names, _, err := w.contenders(ctx, caughtUp)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			w.first = names[0]
			return nil
		}
		var children []string
		w.most = w.Terms.TTL
		children, _, w.changed, err = w.Conn.WatchChildren(ctx, w.parent)
		if errors.Is(err, zk.ErrNoNode) {
			w.changed, err = w.Conn.WatchMissing(ctx, w.parent)
		}
		if !errors.Is(err, zk.ErrNodeExists) && (err != nil || len(znode.Contenders(children)) == 0) {
			return err
		}
	}
}
