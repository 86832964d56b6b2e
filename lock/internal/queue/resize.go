package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// errOvertaken: another client changed the number of permits during a Resize. Then Resize starts
// again.
var errOvertaken = errors.New("the number of permits has changed meanwhile")

// Resize changes the number of a semaphore's permits to the given one. The number is kept as long
// as the semaphore's parent exists. Added permits are available at once. To remove permits, Resize
// waits in the queue until they are free. Then it lowers the number in the transaction that deletes
// its own entry. So a waiter behind that entry sees the lower number once the entry has gone. It
// fails as Acquire does.
func (q *Queue) Resize(ctx context.Context, r Request, to int32) error {
	_, err := q.byItself(ctx, r, func(c *contender, ctx context.Context) (*Entry, error) {
		for {
			err := c.resize(ctx, to)
			if !errors.Is(err, errOvertaken) && !errors.Is(err, lease.ErrGone) {
				return nil, err
			}
		}
	})
	return err
}

func (c *contender) resize(ctx context.Context, to int32) error {
	// A server that lags behind may show an older number.
	known, err := zkconn.Synced(ctx, c.Conn, c.parent, func() (parent, error) { return c.readParent(ctx) })
	if err != nil {
		return err
	}
	now := c.Capacity
	if known.state == present {
		now = known.anchor.capacity()
	}
	if to == now && known.state == present {
		return nil
	}
	c.Permits, c.resizing = max(1, now-to), now
	e, p, err := c.join(ctx)
	if err != nil {
		return err
	}
	free := int32(0) // number of permits that the entry waits for
	if to < now {
		free, err = c.Permits, c.wait(ctx, e, p)
	}
	if err == nil {
		err = c.writeCapacity(ctx, e, to, free)
	}
	if !errors.Is(e.Err(), lease.ErrWithdrawn) {
		e.withdraw()
	}
	return err
}

// writeCapacity writes the number of permits in the transaction in which e leaves. free is the number of
// permits that e has waited for; 0: none. It fails with errOvertaken if more than free permits would
// be removed, if permits would be removed and e is not fresh any more, if the parent is not usable, or
// if the transaction was not applied or its outcome is unknown. It may leave e in the queue.
func (c *contender) writeCapacity(ctx context.Context, e *Entry, to, free int32) error {
	p, err := c.readParent(ctx)
	now := p.anchor.capacity()
	switch {
	case err != nil:
		return err
	case p.state != present, now-to > free, to < now && !e.Fresh(c.Conn.Session()):
		return errOvertaken
	case now == to: // another client wrote the number
		return nil
	case !e.Withdraw():
		return e.Err()
	}
	data := p.anchor.data()
	if data.Resized = to; to == data.Permits {
		data.Resized = 0
	}
	x := newExit(e)
	defer c.close(x.lock)
	x.deletesParent = false
	_, err = c.Conn.Share(ctx, zkconn.Member{
		Ops:   x.last.Ops(&zk.SetDataRequest{Path: anchorPath(c.parent, p.generation), Data: data.Encode(), Version: p.anchorVersion}),
		Locks: []string{c.parent}, Sole: true,
	})
	c.lock.believe(parent{state: unknown})
	if err == nil {
		x.gone()
		return nil
	}
	e.Remove()
	if _, cause := zkconn.RefusedOp(err); errors.Is(cause, zk.ErrNoAuth) {
		return zkconn.ErrDenied
	}
	return errOvertaken
}

// readCapacity reads the number of permits. With watch it also sets a watch on the number. Without
// an anchor, for example after the parent has gone, the number is that of the request, and changed
// is nil.
func (v *view) readCapacity(ctx context.Context, watch bool) (capacity int32, changed <-chan zk.Event, err error) {
	for again := false; ; again = true {
		p := v.lock.believed()
		if p.state != present || p.kind != v.Kind || again {
			if p, err = v.readParent(ctx); err != nil {
				return 0, nil, err
			}
		}
		if p.state != present {
			return v.Capacity, nil, nil
		}
		n, changed, err := v.read(ctx, anchorPath(v.parent, p.generation), watch)
		switch {
		case errors.Is(err, zk.ErrNoNode) && !again:
			continue
		case errors.Is(err, zk.ErrNoNode):
			return v.Capacity, nil, nil
		}
		if err := v.learnAnchor(&p, n, err); err != nil {
			return 0, nil, err
		}
		v.lock.believe(p)
		if capacity = p.anchor.capacity(); v.resizing != 0 && capacity != v.resizing {
			return 0, nil, errOvertaken // the entry waits for the wrong number of permits
		}
		return capacity, changed, nil
	}
}
