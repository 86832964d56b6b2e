package lock

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Release gives back what the client keeps of the named lock although nobody holds it: see
// [WithIdle]. It returns when the entry has left, and at once if nothing is kept. What is
// held, or waited for, is not touched. It fails with ErrInvalid for a name that no lock can
// have, with [ErrClosed], or as ctx does; then the entry is deleted later, or expires.
func (c *Client) Release(ctx context.Context, name string) error {
	switch {
	case c.zero():
		return invalid("client", nil, "must come from Dial or New")
	case ctx == nil:
		return invalid("context", nil, "must not be nil")
	}
	if err := znode.CheckName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.open.Err() != nil || !c.tasks.Enter() {
		return fmt.Errorf("release %q: %w", name, ErrClosed)
	}
	defer c.tasks.Leave()
	bound, release := c.bind(ctx)
	defer release()
	if ctx.Err() != nil {
		return fmt.Errorf("release %q: %w", name, zkconn.ContextError(ctx))
	}
	if err := c.queue.Release(bound, name); err != nil {
		return fmt.Errorf("release %q: %w", name, err)
	}
	return nil
}
