package zkconn

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// fewWatches is how many are kept without looking for those that have fired.
const fewWatches = 64

// Watch reads a node and returns a channel that becomes readable when the node
// has changed since, or when the watch was lost. All who wait for a path share
// one watch: go-zookeeper cannot take one back, so each new one would stay with
// the server until the node changes. A change is a hint: it can get lost over a
// reconnect (a deletion cannot).
func (c *Conn) Watch(ctx context.Context, path string) (Node, <-chan zk.Event, error) {
	if armed := c.armed(path); armed != nil {
		n, err := c.Get(ctx, path) // read after looking, so no change is missed
		if err != nil {
			return Node{}, nil, err
		}
		return n, armed, nil
	}
	type watched struct {
		Node
		events <-chan zk.Event
	}
	w, err := read(ctx, c, func() (watched, error) {
		data, stat, events, err := c.zk.GetW(path)
		return watched{Node{data, stat}, events}, err
	})
	if err != nil {
		return Node{}, nil, err
	}
	c.remember(path, w.events)
	return w.Node, w.events, nil
}

// WatchChildren lists a node and returns a channel that becomes readable as Watch's does,
// when a child has been made or deleted since. It is shared as that is.
func (c *Conn) WatchChildren(ctx context.Context, path string) ([]string, <-chan zk.Event, error) {
	key := path + "/"
	if armed := c.armed(key); armed != nil {
		names, _, err := c.Children(ctx, path)
		return names, armed, err
	}
	type watched struct {
		names  []string
		events <-chan zk.Event
	}
	w, err := read(ctx, c, func() (watched, error) {
		names, _, events, err := c.zk.ChildrenW(path)
		return watched{names, events}, err
	})
	if err == nil {
		c.remember(key, w.events)
	}
	return w.names, w.events, err
}

// WatchMissing returns a channel that becomes readable as Watch's does, when a node has
// been made that is not there. One that is, is a zk.ErrNodeExists.
func (c *Conn) WatchMissing(ctx context.Context, path string) (<-chan zk.Event, error) {
	key := path + "?"
	if armed := c.armed(key); armed != nil {
		if _, err := c.Exists(ctx, path); !errors.Is(err, zk.ErrNoNode) {
			return nil, cmp.Or(err, zk.ErrNodeExists)
		}
		return armed, nil
	}
	events, err := read(ctx, c, func() (<-chan zk.Event, error) {
		exists, _, events, err := c.zk.ExistsW(path)
		if err == nil && exists {
			err = zk.ErrNodeExists
		}
		return events, err
	})
	if err == nil {
		c.remember(key, events)
	}
	return events, err
}

// armed returns the watch of a path that has not fired yet, nil if there is none.
func (c *Conn) armed(path string) <-chan zk.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if armed := c.watches[path]; armed != nil && !fired(armed) {
		return armed
	}
	return nil
}

// remember keeps a watch for others who wait for the same path.
func (c *Conn) remember(path string, events <-chan zk.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.watches) >= c.sweepAt {
		for path, events := range c.watches {
			if fired(events) {
				delete(c.watches, path)
			}
		}
		c.sweepAt = max(fewWatches, 2*len(c.watches))
	}
	c.watches[path] = events
}

// Watches returns how many watches are remembered, some of which may have fired.
func (c *Conn) Watches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.watches)
}

// fired reports whether a watch has fired. go-zookeeper sends one event and
// closes the channel, so that it stays readable for everybody who shares it; but for the
// moment between the two, when somebody has taken the event already: then it becomes so.
func fired(events <-chan zk.Event) bool {
	select {
	case <-events:
		return true
	default:
		return false
	}
}
