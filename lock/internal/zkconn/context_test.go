package zkconn

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestContextError(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := ContextError(ctx); err != nil {
		t.Errorf("%v before its end", err)
	}
	cause := errors.New("closing time")
	cancel(cause)
	if err := ContextError(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || err.Error() != "context canceled: closing time" {
		t.Errorf("%v", err)
	}
	plain, cancelPlain := context.WithCancel(t.Context())
	cancelPlain()
	if err := ContextError(plain); err != context.Canceled {
		t.Errorf("%v", err)
	}
	wrapping, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("gave up: %w", context.Canceled))
	if err := ContextError(wrapping); err.Error() != "gave up: context canceled" {
		t.Errorf("%v", err)
	}
}
