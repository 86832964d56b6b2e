package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
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
	known, err := c.readParentSynced(ctx)
	if err != nil {
		return err
	}
	now := c.Capacity
	if known.state == present {
		now = known.anchor.Capacity()
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
	now := p.anchor.Capacity()
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
	data := p.anchor
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

// checkAnchor returns the operation of a join that proves the parent's generation; for a semaphore
// also the anchor's data. The first join that asks for several permits writes them.
func (d *draft) checkAnchor() any {
	p, version := &d.parent, int32(-1)
	if p.kind == znode.Semaphore {
		version = p.anchorVersion
	}
	path := anchorPath(d.by.parent, p.generation)
	if d.by.Permits <= 1 || !p.anchor.Single {
		return &zk.CheckVersionRequest{Path: path, Version: version}
	}
	d.sole, p.anchor.Single = true, false
	p.anchorVersion++
	return &zk.SetDataRequest{Path: path, Data: p.anchor.Encode(), Version: version}
}

// readAnchor reads a semaphore's number of permits into p. It fails with zk.ErrNoNode if there is no
// anchor, and if the number does not fit the request. The anchor of another lock has nothing to read, so
// it is read only if a join has not found it.
func (v *view) readAnchor(ctx context.Context, p *parent) error {
	if p.kind != znode.Semaphore && p.generation != v.anchorless {
		return nil
	}
	n, err := v.Conn.Get(ctx, anchorPath(v.parent, p.generation))
	if errors.Is(err, zk.ErrNoAuth) {
		return denied("read the anchor below", v.parent)
	} else if err != nil {
		return err
	}
	if p.kind != znode.Semaphore {
		return nil
	}
	a, err := znode.DecodeAnchor(n.Data)
	if err != nil {
		return fmt.Errorf("%w: the anchor below %s holds %v", ErrForeign, v.parent, err)
	}
	p.anchor, p.anchorVersion = a, n.Stat.Version
	if !v.fits(p) {
		return fmt.Errorf("%w: %s has %d (made with %d), asked for as one of %d: use one of the two, or change the number by Resize",
			ErrPermits, v.parent, p.anchor.Capacity(), p.anchor.Permits, v.Capacity)
	}
	if v.checked != anyGeneration {
		v.checked = p.generation
	}
	return nil
}

// anyGeneration is the value of checked for a view that never checks the number of permits.
const anyGeneration = "*"

// fits reports whether a semaphore's original or present number of permits is the contender's
// number. If the number of this generation was checked before, the contender fits: another client
// may have changed the number since.
func (v *view) fits(p *parent) bool {
	return v.Kind != znode.Semaphore || v.checked == anyGeneration || v.checked == p.generation ||
		v.Capacity == p.anchor.Permits || v.Capacity == p.anchor.Capacity()
}

// readCapacity reads the number of permits. Without an anchor, for example after the parent has
// gone, the number is that of the request.
func (v *view) readCapacity(ctx context.Context) (int32, error) {
	p := v.lock.believed()
	err := error(zk.ErrNoNode)
	if p.state == present && p.kind == v.Kind {
		p.session = v.Conn.Session()
		if err = v.readAnchor(ctx, &p); err == nil {
			v.lock.believe(p)
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		p, err = v.readParent(ctx)
	}
	switch capacity := p.anchor.Capacity(); {
	case err != nil:
		return 0, err
	case p.state != present:
		return v.Capacity, nil
	case v.resizing != 0 && capacity != v.resizing:
		return 0, errOvertaken // the entry waits for the wrong number of permits
	default:
		return capacity, nil
	}
}
