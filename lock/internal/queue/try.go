package queue

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// Try takes the lock if no contender is in the way; otherwise it fails with a [Blocked]. Its
// other errors are those of Acquire. It lists before it joins. So a try that fails because of a
// listed contender leaves nothing behind except, perhaps, the mark of the epoch.
func (q *Queue) Try(ctx context.Context, r Request) (*Entry, error) {
	return q.byItself(ctx, r, (*contender).try)
}

func (c *contender) try(ctx context.Context) (*Entry, error) {
	if err := c.looksFree(ctx); err != nil {
		return nil, err
	}
	return c.acquire(ctx)
}

// looksFree makes c a try, and returns a Blocked if a live contender is in the way. It syncs,
// because a server that lags behind might still show a contender that has left.
func (c *contender) looksFree(ctx context.Context) error {
	c.trying = true
	names, err := c.list(ctx, true)
	if err == nil && len(names) > 0 {
		err = kindOf(c.Kind).free(ctx, &c.view, names)
	}
	if errors.As(err, new(*Blocked)) && slices.ContainsFunc(names, c.isOdd) {
		if _, wrong := c.readParent(ctx); wrong != nil { // such as ErrKind
			return wrong
		}
	}
	return err
}

// isOdd reports whether a contender's name is not one of the request's kind, as far as names tell: those
// of a mutex and of a semaphore are alike if no entry asks for several permits.
func (r *Request) isOdd(n znode.Name) bool {
	return n.Ours() && ((n.Role == znode.Exclusive) != (r.Role == znode.Exclusive) || n.Permits > 1 && r.Permits == 0 && r.Priority == 0)
}

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
