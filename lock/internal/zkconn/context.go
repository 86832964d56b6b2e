package zkconn

import (
	"context"
	"errors"
	"fmt"
)

// ContextError returns an ended context's error with its cause; nil before its end. If the
// context ended because the client closed, it returns ErrClosed alone: the caller has not
// canceled anything.
func ContextError(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if cause == ErrClosed || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
