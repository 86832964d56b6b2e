package zkconn

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// lookAgain is the time after which a watch fires although nothing has changed, plus or minus
	// a quarter. So it limits the time for which a lost watch goes unnoticed. On an owned
	// connection the watch fires with the next ping: up to a third of the session timeout later.
	lookAgain = time.Minute

	// fewWatches is the least number of remembered watches at which fired watches are dropped.
	fewWatches = 64
)

// watchKey names a watch: the event that fires it, and the path. The events are
// EventNodeDataChanged, EventNodeChildrenChanged and EventNodeCreated.
type watchKey struct {
	event zk.EventType
	path  string
}

// watch is a watch that many waiters share.
type watch struct {
	events <-chan zk.Event
	until  time.Duration // monotonic time at which it fires although nothing has changed
}

// Watch reads a node and returns a channel. The channel becomes readable, and stays so, when
// the node may have changed since:
//
//   - the node was written or deleted; the event EventNodeDeleted is sent for no other reason,
//     and only one of the readers receives it;
//   - the connection was lost: all earlier watches fire, so their waiters read again;
//   - about a minute has passed, so no wait on the channel is unbounded.
//
// All waiters for a path share one watch. go-zookeeper cannot cancel a watch, so each new one
// would stay on the server until the node changes.
func (c *Conn) Watch(ctx context.Context, path string) (Node, <-chan zk.Event, error) {
	return share(ctx, c, watchKey{zk.EventNodeDataChanged, path},
		func() (Node, error) {
			data, stat, err := c.zk.Get(path)
			return Node{data, stat}, err
		},
		func() (Node, <-chan zk.Event, error) {
			data, stat, events, err := c.zk.GetW(path)
			return Node{data, stat}, events, err
		})
}

// WatchChildren lists a node, and returns a channel as Watch does, which becomes readable when a
// child may have been created or deleted since. The Pzxid in the Stat of a later list shows whether
// a child was created or deleted.
func (c *Conn) WatchChildren(ctx context.Context, path string) ([]string, *zk.Stat, <-chan zk.Event, error) {
	p, changed, err := share(ctx, c, watchKey{zk.EventNodeChildrenChanged, path},
		paired(func() ([]string, *zk.Stat, error) { return c.zk.Children(path) }),
		func() (pair[[]string, *zk.Stat], <-chan zk.Event, error) {
			names, stat, events, err := c.zk.ChildrenW(path)
			return pair[[]string, *zk.Stat]{names, stat}, events, err
		})
	return p.a, p.b, changed, err
}

// WatchMissing returns a channel as Watch does, which becomes readable when the missing node may
// have been created. If the node exists, WatchMissing fails with zk.ErrNodeExists.
func (c *Conn) WatchMissing(ctx context.Context, path string) (<-chan zk.Event, error) {
	missing := func(exists bool, err error) (struct{}, error) {
		if err == nil && exists {
			err = zk.ErrNodeExists
		}
		return struct{}{}, err
	}
	_, events, err := share(ctx, c, watchKey{zk.EventNodeCreated, path},
		func() (struct{}, error) {
			exists, _, err := c.zk.Exists(path)
			return missing(exists, err)
		},
		func() (struct{}, <-chan zk.Event, error) {
			exists, _, events, err := c.zk.ExistsW(path)
			none, err := missing(exists, err)
			return none, events, err
		})
	return events, err
}

// share reads a node and returns the watch of the key. If the key has a watch that has not fired,
// share reads by plain; otherwise by arm, which sets a watch.
func share[T any](ctx context.Context, c *Conn, key watchKey, plain func() (T, error), arm func() (T, <-chan zk.Event, error)) (T, <-chan zk.Event, error) {
	events, lost := c.armed(key) // before the read, so no change and no outage is missed
	if events != nil {
		value, err := read(ctx, c, plain)
		if err != nil {
			events = nil
		}
		return value, events, err
	}
	p, err := read(ctx, c, paired(arm))
	if err == nil {
		events = c.remember(key, p.b, lost)
	}
	return p.a, events, err
}

// armed returns the key's watch if it has not fired, or nil. It also returns the channel that is
// closed when watches set from now on may have been lost.
func (c *Conn) armed(key watchKey) (events <-chan zk.Event, lost <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.watches[key]; ok && !Fired(w.events) {
		events = w.events
	}
	return events, c.lost
}

// remember keeps a watch for other calls, and returns the channel to wait for. When there are many
// watches, it drops the fired ones.
func (c *Conn) remember(key watchKey, events <-chan zk.Event, lost <-chan struct{}) <-chan zk.Event {
	most := c.cfg.Jitter(lookAgain, lookAgain/4)
	if !c.Owned() {
		events = c.relay(events, lost, most)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.watches) >= c.sweepAt {
		for key, w := range c.watches {
			if Fired(w.events) {
				delete(c.watches, key)
			}
		}
		c.sweepAt = max(fewWatches, 2*len(c.watches))
	}
	c.watches[key] = watch{events, c.cfg.Now() + most}
	return events
}

// relay returns a channel that fires with a watch of a borrowed connection, and also when watches
// may have been lost, when the Conn is closed, and after the time most. On an owned connection
// serverConn does this.
func (c *Conn) relay(events <-chan zk.Event, lost <-chan struct{}, most time.Duration) <-chan zk.Event {
	relayed := make(chan zk.Event, 1)
	go func() {
		defer close(relayed)
		timer := time.NewTimer(most)
		defer timer.Stop()
		select {
		case e := <-events:
			relayed <- e
		case <-lost:
		case <-timer.C:
		case <-c.open.Done():
		}
	}()
	return relayed
}

// loseWatches fires all watches of a borrowed connection. go-zookeeper sets its watches again by
// itself, but goes on without them if the server refuses.
func (c *Conn) loseWatches() {
	if c.Owned() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.lost)
	c.lost = make(chan struct{})
}

// overdue removes and returns the watches that must fire because lookAgain is over.
func (c *Conn) overdue() (keys []watchKey) {
	now := c.cfg.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, w := range c.watches {
		if now >= w.until {
			keys = append(keys, key)
			delete(c.watches, key)
		}
	}
	return keys
}

// Watches returns the number of remembered watches, some of which may have fired.
func (c *Conn) Watches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.watches)
}

// Fired reports whether a watch has fired, and may receive its event. The channel of a watch gets
// one event and is closed. So it stays readable for all waiters, except for a moment after a waiter
// has received the event.
func Fired(events <-chan zk.Event) bool {
	select {
	case <-events:
		return true
	default:
		return false
	}
}
