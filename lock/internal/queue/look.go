package queue

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// looks are the lists that the contenders of one process make together: one at a time, and
// one more for those who ask meanwhile. Guarded by their door.
type looks struct {
	current *look
	next    *look // not sent yet: whoever comes shares it
}

// look is one list.
type look struct {
	waits  context.Context // of whoever makes it, who may wait for joins; hurry ends that: one asks whose turn may have come
	hurry  context.CancelFunc
	done   chan struct{} // closed when the rest is known
	made   bool          // false: whoever was to make it gave up
	names  []znode.Name
	parent *zk.Stat
	err    error
}

// sighting is an entry that was there, below an incarnation of the parent.
type sighting struct {
	incarnation int64 // Czxid of the parent
	znode.Name
}

// listed notes the last one of a list, for those who join next.
func (d *door) listed(incarnation int64, names []znode.Name) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, before := names[len(names)-1], d.newest
	if last.Ours() && !last.Overflowed() && (before == nil || incarnation > before.incarnation || incarnation == before.incarnation && last.Seq > before.Seq) {
		d.newest = &sighting{incarnation, last}
	}
}

// lastJoined is who joined last, as far as is known, and whether it may be there still.
func (d *door) lastJoined(f facts) (node string, there bool) {
	node, there = f.lastJoined()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.newest == nil || d.newest.incarnation != f.czxid || !f.exists {
		return node, there
	}
	if n, ok := znode.Parse(node); !ok || d.newest.Seq > n.Seq {
		return d.newest.Node, f.children > 0
	}
	return node, there
}

// lookTogether is contenders, shared by those of this process who ask for it before it is
// sent. One who has just joined lets those join first who wait at the door already, unless
// somebody asks whose turn may have come: many who come at once then need one list.
func (c *contender) lookTogether(ctx context.Context, justJoined bool) ([]znode.Name, *zk.Stat, error) {
	for {
		l, before, first := c.door.nextLook(ctx, !justJoined)
		if first {
			c.makeLook(ctx, l, before, justJoined)
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, nil, zkconn.ContextError(ctx)
		}
		if l.made || first {
			return slices.Clone(l.names), l.parent, l.err
		}
	}
}

// makeLook makes the list, when the one before it is there.
func (c *contender) makeLook(ctx context.Context, l, before *look, justJoined bool) {
	var ready error
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
			ready = zkconn.ContextError(ctx)
		}
	}
	if ready == nil && justJoined {
		if c.gate.lock(l.waits) == nil {
			c.gate.unlock()
		} else if ctx.Err() != nil {
			ready = zkconn.ContextError(ctx)
		}
	}
	l.hurry()
	c.door.sendLook(l)
	if l.err = ready; ready == nil {
		l.names, l.parent, l.err = c.contenders(ctx, false)
		l.made = l.err == nil || ctx.Err() == nil
	}
	c.door.endLook(l)
}

// nextLook returns the list that is sent next, and the one that is under way. First says
// that it is the caller who is to make it, urgent that it is not to wait for any joins.
func (d *door) nextLook(ctx context.Context, urgent bool) (l, before *look, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if first = d.looks.next == nil; first {
		d.looks.next = &look{done: make(chan struct{})}
		d.looks.next.waits, d.looks.next.hurry = context.WithCancel(ctx)
	}
	if urgent {
		d.looks.next.hurry()
	}
	return d.looks.next, d.looks.current, first
}

// sendLook notes that the list is sent: it shows those who ask later nothing new.
func (d *door) sendLook(l *look) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks.current, d.looks.next = l, nil
}

// endLook gives the list to those who wait for it; nobody else keeps it.
func (d *door) endLook(l *look) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.looks.current == l {
		d.looks.current = nil
	}
	close(l.done)
}
