package queue

import (
	"context"
	"errors"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func (c *contender) acquire(ctx context.Context) (*Entry, error) {
	return c.acquireBy(ctx, new(boarding))
}

// acquireBy takes the lock by the entry that was found at a seat; if there was none, and if
// that one gets lost, by one that is joined, unless it tries: that fails with ErrGone. What is
// left when it fails, another of the party goes on with.
func (c *contender) acquireBy(ctx context.Context, b *boarding) (_ *Entry, err error) {
	for {
		e, p := b.e, b.p
		if b.e, b.p = nil, (position{}); e == nil {
			if c.trying {
				return nil, lease.ErrGone
			}
			if b.seat != nil { // nobody else's entry is ever kept, nor asked for
				c.Terms.Idle = c.Idle
			}
			if e, p, err = c.join(ctx); err != nil {
				return nil, err
			}
		}
		if e.at == nil && b.seat != nil { // it was joined: nobody looks at it yet
			e.at, e.seat, e.window = c.door, b.seat, c.Window
		}
		if err = c.await(ctx, e, p); err == nil {
			err = c.standBack(ctx, e)
		}
		if err == nil {
			err = c.grant(ctx, e, !p.admitted)
		}
		if err == nil {
			return e, nil
		}
		if b.seat != nil && ctx.Err() != nil && e.Err() == nil {
			b.e = e
			return nil, err
		}
		switch withdrawn := c.takeBack(e); {
		case errors.Is(err, errOutranked):
			continue
		case withdrawn, !errors.Is(err, lease.ErrGone), c.trying:
			return nil, err
		}
		c.requeued.Add(1)
		c.Log.Warn().Str("lock", c.Lock).Str("entry", e.Path).AnErr("why", err).Msg("lost the place in the queue; queueing again at the end")
	}
}

// takeBack withdraws an entry that nobody has got. It reports false if that had ended by
// itself, whatever was noticed first.
func (c *contender) takeBack(e *Entry) (withdrawn bool) {
	if e.Withdraw() {
		c.Discard(e)
		return true
	}
	c.Forget(e)
	if errors.Is(e.Err(), lease.ErrAttached) { // the node is somebody else's now
		return false
	}
	// Somebody may have overwritten it; or it appears again, and would be ahead of us.
	c.quarantine.add(e.Name().ID, c.Clock.Mono())
	c.Discard(c.orphan(e.Name()))
	return false
}

// grant makes a hold of an entry whose turn has come. The grant is recorded with
// the next write. That is made now if no other would follow; and soon if we had
// to wait, because then somebody may wait behind us too, who need not list when
// we go if our entry has told that we hold.
func (c *contender) grant(ctx context.Context, e *Entry, waited bool) error {
	now, record := c.Clock.Local(), lease.Never
	if c.Kind == znode.Semaphore {
		waited = !e.joinedAlone // whoever is behind waits to be told
	}
	if waited && c.Role != znode.Shared { // of a reader that says nothing
		record = now.Mono + c.door.recordGrantAfter()
	}
	if err := e.Grant(c.Values, now, record); err != nil {
		return err
	}
	if !c.Terms.Fixed && c.Priority == 0 || e.Recorded() { // a leader is one that all can see
		return nil
	}
	for {
		if err := e.Refresh(ctx); err != nil && e.Err() != nil {
			return lease.ErrGone // before anybody had it
		} else if err != nil {
			return err
		}
		if !e.IsOver() { // as it may be by a reply that came late, to a machine that slept
			return nil
		}
	}
}
