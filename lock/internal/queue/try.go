package queue

import (
	"context"
	"errors"
	"slices"

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
