package queue

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Watcher finds the holder of a lock, without an entry of its own. It belongs to one goroutine.
//
// No contender joins ahead of another. So a Watcher watches the first entry, and the lock's
// children only while there is none. It reads the first entry after each renewal.
type Watcher struct {
	view
	first    znode.Name      // the first known entry of the queue; zero: unknown
	youngest int64           // Czxid of the last holder that Holder returned; 0: none
	resets   int             // znode.Now.Resets when youngest was set
	sessions int             // znode.Now.Sessions when youngest was set
	changed  <-chan zk.Event // watch of the last read
	most     time.Duration   // time for which the last read counts; negative: until changed fires
}

// NewWatcher returns a watcher of the request's lock.
func (q *Queue) NewWatcher(r Request) *Watcher {
	return &Watcher{view: newView(q, r, new(lockState))}
}

// Holder returns the entry of the holder: the first entry, if its record shows the grant and it
// has not expired; nil if there is no holder. caughtUp asks the server to catch up with the leader
// first. A later call never returns an earlier holder, unless the servers have lost their data.
func (w *Watcher) Holder(ctx context.Context, caughtUp bool) (*znode.Entry, error) {
	for {
		s, err := w.readFirst(ctx, caughtUp)
		if err != nil || s == nil {
			return nil, err
		}
		first := &s.entry
		// In a new session the servers may have lost their data unseen. A read that has caught up
		// does not lag.
		if now := w.Clock.Now(); now.Resets != w.resets || caughtUp && now.Sessions != w.sessions {
			w.resets, w.sessions, w.youngest = now.Resets, now.Sessions, 0
		}
		switch w.most = s.wait; {
		case first.Stat.Czxid < w.youngest: // the server lags behind the previous server, or has lost data
			if caughtUp { // a sample shows whether it has lost data
				err = w.Clock.Sample(ctx)
				if errors.Is(err, zkconn.ErrDenied) || errors.Is(err, zk.ErrNoNode) {
					err = pause(ctx, pollEvery)
				}
			}
			if caughtUp = true; err != nil {
				return nil, err
			}
		case s.expired && caughtUp:
			w.most = first.TTL() // a reconnect may hide a renewal: read again after a TTL
			return nil, nil
		case s.expired:
			caughtUp = true // the server may lag behind the last renewal
		case !first.Granted():
			return nil, nil
		default:
			w.youngest, w.sessions = first.Stat.Czxid, w.Clock.Now().Sessions
			return first, nil
		}
	}
}

// Await waits until the holder may have changed since the last call of Holder.
func (w *Watcher) Await(ctx context.Context) error { return await(ctx, w.changed, w.most) }

// readFirst reads the first entry of the queue, and watches it. It returns nil if there is none.
func (w *Watcher) readFirst(ctx context.Context, caughtUp bool) (*sighting, error) {
	for {
		if w.first.Node == "" {
			if err := w.find(ctx, caughtUp); err != nil || w.first.Node == "" {
				return nil, err
			}
		} else if caughtUp {
			if err := w.Conn.Sync(ctx, w.parent); err != nil {
				return nil, err
			}
		}
		s, err := w.assess(ctx, w.first, true, w.Clock.Prove)
		switch {
		case errors.Is(err, zk.ErrNoNode): // the entry has left
			w.first = znode.Name{}
			continue
		case errors.Is(err, zk.ErrNoAuth):
			return nil, denied("read", w.path(w.first))
		case err != nil:
			return nil, err
		}
		w.changed = s.changed
		return s, nil
	}
}

// find lists the contenders to find the first entry. If there is none, it watches for the next
// contender.
func (w *Watcher) find(ctx context.Context, caughtUp bool) error {
	for {
		names, err := w.list(ctx, caughtUp)
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
