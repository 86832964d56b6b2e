package queue

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"
)

// barge takes the lock when it is free: it tries again each time that the last contender of the
// queue has changed. The caller grants the entry.
func (c *contender) barge(ctx context.Context) (e *Entry, err error) {
	for {
		if err = c.looksFree(ctx); err == nil {
			if e, err = c.obtain(ctx, nil, position{}); err == nil {
				return e, nil
			}
		}
		var blocked *Blocked
		if !errors.As(err, &blocked) {
			return nil, err
		}
		c.blocker(blocked)
		if c.lock.believed().state != present { // fail if this contender cannot use the parent
			if _, err := c.readParent(ctx); err != nil {
				return nil, err
			}
		}
		wait := c.awaitFree
		if blocked.Path == c.parent { // the parent's counter is at its end, and no contender is left
			wait = func(ctx context.Context) error { return pause(ctx, pollEvery) }
		}
		if err := wait(ctx); err != nil {
			return nil, err
		}
	}
}

// awaitFree waits until the last living contender of the queue has changed, left or expired, or must be
// read again.
func (c *contender) awaitFree(ctx context.Context) error {
	c.waiting("", 0)
	names, err := c.list(ctx, false)
	if err != nil {
		return err
	}
	for _, n := range slices.Backward(names) { // the dead ones are purged when the lock is free
		s, err := c.assess(ctx, n, true, c.Clock.Prove)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			return pause(ctx, pollEvery)
		case err != nil:
			return err
		}
		if !s.expired {
			return await(ctx, s.changed, max(s.wait, c.warnOfForeign(s)))
		}
	}
	return nil
}
