package queue

import (
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
// ctx ends. If the outcome is unknown, the transaction is sent again under a new attempt, until an
// answer is definite. E can be deleted only once, so no earlier attempt can be applied after that.
func (c *contender) exchange(ctx context.Context, before *Entry) (e *Entry, p position, err error) {
	defer c.HandoffFailed(before)
	x := newExit(before)
	defer c.close(x.lock)
	x.deletesParent = false
	var inDoubt drafts
	var created lease.Created // values of the first draft in doubt
	err = c.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		known := c.lock.believed()
		if known.state != present || known.kind != c.Kind || c.Barging || before.Name().Overflowed() {
			return x.attempt(ctx)
		}
		if err := c.Conn.Ready(ctx); err != nil {
			return err
		}
		now := lease.Created{Sent: c.Clock.Local()}
		d := c.draft(known, now.Sent)
		m := zkconn.Member{Ops: x.ops(), Sure: 1, Sending: c.sending(&now)}
		d.share(&m)
		replies, err := c.Conn.Share(ctx, m)
		d.answered()
		switch {
		case err == nil && len(replies) == 1: // the join was refused: the entry has left without it, and the parent is read again
			c.lock.believe(parent{state: unknown, shared: sharedFor})
			x.gone()
			return nil
		case err == nil:
			c.lock.noteLeft(now.Sent.Mono)
			e, p = d.joined(replies[1:], now, c.Clock.Local())
			return nil
		case zkconn.OutcomeOf(err) == zkconn.Ambiguous:
			if len(inDoubt) == 0 {
				created = now
			}
			inDoubt = append(inDoubt, d)
		}
		return x.refused(ctx, err)
	})
	if err == nil && e == nil && len(inDoubt) > 0 { // an earlier attempt may have been applied
		if e, err = c.resolveCreate(ctx, created, inDoubt...); zkconn.OutcomeOf(err) == zkconn.Retryable {
			err = nil // no attempt was applied, and none can be any more
		}
		inDoubt = nil
	}
	switch {
	case err == nil && e != nil && e.Name().Overflowed():
		e.withdraw()
		return nil, position{}, nil
	case err == nil:
		return e, p, nil
	}
	if !errors.Is(err, lease.ErrRemoved) && !errors.Is(err, lease.ErrTaken) {
		before.Remove()
	} else {
		before.CheckParentLater()
	}
	for _, d := range inDoubt {
		c.orphan(d.attempt)
	}
	if len(inDoubt) > 0 {
		c.Tasks.Go(inDoubt.remove)
	}
	if ctx.Err() == nil {
		err = nil // the waiters join by themselves
	}
	return nil, position{}, err
}
