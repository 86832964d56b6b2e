package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Resize changes how many permits a semaphore has, for as long as its parent stays. More
// there are at once. To have fewer it waits in the queue, until those to be taken away
// are free; then it takes them away in the transaction in which its own entry goes. So
// whoever is behind that entry sees the lower number once it has gone. It fails as
// Acquire does.
func (q *Queue) Resize(ctx context.Context, r Request, to int32) error {
	_, err := q.contend(ctx, r, func(c *contender, ctx context.Context) (*Entry, error) {
		for {
			if err := c.resize(ctx, to); !errors.Is(err, errAged) && !errors.Is(err, lease.ErrGone) {
				return nil, err
			}
		}
	})
	return err
}

func (c *contender) resize(ctx context.Context, to int32) error {
	if err := c.readParent(ctx); err != nil {
		return err
	}
	now := c.Capacity
	if f, _ := c.door.look(); f.exists {
		now = f.data.Capacity()
	}
	if to == now {
		return nil
	}
	c.Permits, c.resizing = max(1, now-to), now
	e, p, err := c.join(ctx)
	if err != nil {
		return err
	}
	free := int32(0) // permits that it has waited for
	if to < now {
		free, err = c.Permits, c.await(ctx, e, p)
	}
	if err == nil {
		err = c.writeCapacity(ctx, e, to, free)
	}
	if e.Withdraw() {
		c.Discard(e)
	} else {
		c.Forget(e)
		c.Discard(c.orphan(e.Name()))
	}
	return err
}

// overtaken reports whether somebody else has changed the number of permits since the
// resize began, so that what it waits for is the wrong number.
func (c *contender) overtaken() bool { return c.resizing != 0 && c.capacity != c.resizing }

// writeCapacity writes the number of permits, and takes the entry away that had waited
// until so many were free. It fails with errAged if these are not enough, because somebody
// else has changed the number meanwhile.
func (c *contender) writeCapacity(ctx context.Context, e *Entry, to, free int32) error {
	return c.Conn.Retry(ctx, leaveBackoff, func() error {
		if err := c.readParent(ctx); err != nil {
			return zkconn.Final(err)
		}
		f, _ := c.door.look()
		switch {
		case !f.exists, f.data.Capacity() == to: // a reply that was lost, or somebody else
			return nil
		case f.data.Capacity()-to > free, to < f.data.Capacity() && !e.Fresh(c.Conn.Session()):
			return zkconn.Final(errAged)
		}
		data := f.data
		if data.Resized = to; to == data.Permits {
			data.Resized = 0
		}
		_, err := c.Conn.Multi(ctx, nil,
			&zk.SetDataRequest{Path: c.parent, Data: data.Encode(), Version: f.version},
			&zk.DeleteRequest{Path: e.Path, Version: -1})
		c.door.doubt()
		if err == nil {
			c.learn(to)
		}
		switch op, cause := zkconn.RefusedOp(err); {
		case op == 0 && errors.Is(cause, zk.ErrBadVersion):
			return zkconn.ErrAgain
		case op == 1 && errors.Is(cause, zk.ErrNoNode):
			return zkconn.Final(lease.ErrGone)
		case errors.Is(cause, zk.ErrNoAuth):
			return zkconn.Final(zkconn.ErrDenied)
		}
		return err
	})
}
