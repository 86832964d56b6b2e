package zkconn

import (
	"context"

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
	c.mu.Lock()
	armed := c.watches[path]
	c.mu.Unlock()
	if armed != nil && !fired(armed) {
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
	c.watches[path] = w.events
	return w.Node, w.events, nil
}

// WatchChildren lists a node and returns a channel that becomes readable as Watch's does,
// when a child has been made or deleted since. The watch is the caller's own.
func (c *Conn) WatchChildren(ctx context.Context, path string) ([]string, <-chan zk.Event, error) {
	type watched struct {
		names  []string
		events <-chan zk.Event
	}
	w, err := read(ctx, c, func() (watched, error) {
		names, _, events, err := c.zk.ChildrenW(path)
		return watched{names, events}, err
	})
	return w.names, w.events, err
}

// Watches returns how many watches are remembered, some of which may have fired.
func (c *Conn) Watches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.watches)
}

// fired reports whether a watch has fired. go-zookeeper sends one event and
// closes the channel, so that it stays readable for everybody who shares it.
func fired(events <-chan zk.Event) bool {
	select {
	case <-events:
		return true
	default:
		return false
	}
}
