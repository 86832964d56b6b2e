package queue

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// exchange replaces an unlocked entry by a new one at the end of the queue, in one transaction:
//
//	Delete(E, version)  Check(anchor)  Create(E')  SetData(P)
//
// If the belief about the parent does not allow a join, or the server refuses the join, the entry
// only leaves. Without a new entry, exchange returns nil, and the caller joins. It fails only if
// ctx ends. If the outcome is unknown, the entry leaves by itself, and then exchange looks for E': E
// can be deleted only once, so the transaction cannot be applied after that.
func (c *contender) exchange(ctx context.Context, before *Entry) (e *Entry, p position, err error) {
	defer c.NotHandedOff(before)
	x := newExit(before)
	defer c.close(x.lock)
	x.deletesParent = false
	var created lease.Created
	var inDoubt *draft
	err = c.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		known := c.lock.believed()
		if inDoubt != nil || known.state != present || known.kind != c.Kind || c.Barging || before.Name().Overflowed() {
			return x.attempt(ctx)
		}
		if err := c.Conn.Ready(ctx); err != nil {
			return err
		}
		created.Sent = c.Clock.Local()
		d := c.draft(known, created.Sent)
		m := zkconn.Member{Ops: x.last.Ops(), Sure: 1, Sending: c.sending(&created)}
		d.share(&m)
		replies, err := c.Conn.Share(ctx, m)
		d.answered()
		switch {
		case err == nil && len(replies) == 1: // the join was refused: the entry has left without it, and the parent is read again
			c.lock.believe(parent{state: unknown, shared: sharedFor})
			x.gone()
			return nil
		case err == nil:
			c.lock.noteLeft(created.Sent.Mono)
			e, p = d.joined(replies[1:], created, c.Clock.Local())
			return nil
		case zkconn.OutcomeOf(err) == zkconn.Ambiguous:
			inDoubt = d
		}
		return x.refused(ctx, err)
	})
	if inDoubt != nil {
		var failed error
		e, failed = c.resolveCreate(ctx, created, inDoubt)
		err = cmp.Or(err, failed)
	}
	if e != nil && (err != nil || e.Name().Overflowed()) {
		e.withdraw()
		e, p = nil, position{}
	}
	switch {
	case err == nil:
		return e, p, nil
	case errors.Is(err, lease.ErrRemoved), errors.Is(err, lease.ErrTaken):
		before.CheckParentLater()
	default:
		before.Remove()
	}
	if ctx.Err() == nil {
		err = nil // the waiters join by themselves
	}
	return nil, position{}, err
}
