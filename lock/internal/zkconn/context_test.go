package zkconn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
)

// slice is an error that cannot be compared.
type slice []string

func (s slice) Error() string { return s[0] }

// strange is a context whose error is none of package context.
type strange struct{ context.Context }

func (strange) Err() error { return zk.ErrNoNode }

// canceled returns a context that was canceled with the cause.
func canceled(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// TestContextError: a caller's cause is in the text of the error, and decides nothing. Reveal makes
// the error match it. A client that closes is no caller.
func TestContextError(t *testing.T) {
	if err := ContextError(t.Context()); err != nil {
		t.Errorf("%v before its end", err)
	}
	late, cancel := context.WithTimeoutCause(t.Context(), 0, zk.ErrBadVersion) // wall clock: it has ended already
	defer cancel()
	c := newConn(Config{})
	theirs := answered(zk.ErrNoNode)
	for _, tt := range []struct {
		ctx  context.Context
		kind error
		text string
	}{
		{canceled(nil), context.Canceled, "context canceled"},
		{canceled(errors.New("closing time")), context.Canceled, "context canceled: closing time"},
		{canceled(fmt.Errorf("gave up: %w", context.Canceled)), context.Canceled, "gave up: context canceled"},
		{late, context.DeadlineExceeded, "context deadline exceeded: zk: version conflict"},
		{canceled(theirs), context.Canceled, "context canceled: zk: node does not exist"},
		{canceled(RefusedAt(3, zk.ErrNoAuth)), context.Canceled, "context canceled: operation 3: zk: not authenticated"},
		{canceled(NotSent(ErrUnavailable)), context.Canceled, "context canceled: no session with ZooKeeper"},
		{canceled(errors.Join(ErrDenied, zk.ErrNodeExists)), context.Canceled, "context canceled: access denied\nzk: node already exists"},
		{canceled(ErrClosed), context.Canceled, "context canceled: client is closed"},
		{canceled(ErrAgain), context.Canceled, "context canceled: try again"},
		{canceled(Final(ErrDenied)), context.Canceled, "context canceled: access denied"},
		{canceled(slice{"a", "b"}), context.Canceled, "context canceled: a"},
		{strange{canceled(nil)}, nil, "zk: node does not exist: context canceled"},
	} {
		cause := context.Cause(tt.ctx)
		for _, err := range []error{ContextError(tt.ctx), abandon(tt.ctx), fmt.Errorf("lock: %w", c.unavailable(tt.ctx, abandon(tt.ctx)))} {
			err = errors.Join(err) // as a call that made several requests
			if op, _ := RefusedOp(err); op != -1 || OutcomeOf(err) != Ambiguous {
				t.Errorf("%v is taken for an answer: operation %d, %d", err, op, OutcomeOf(err))
			}
			for _, other := range []error{zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrNodeExists, ErrDenied, ErrClosed, ErrAgain} {
				if errors.Is(err, other) {
					t.Errorf("%v matches %v", err, other)
				}
			}
			if tt.kind != nil {
				mustBe(t, err, tt.kind)
			}
			told := Reveal(err)
			mustBe(t, told, tt.ctx.Err())
			if told.Error() != err.Error() {
				t.Errorf("%v, and revealed: %v", err, told)
			}
			if _, incomparable := cause.(slice); incomparable {
				if !errors.As(told, new(slice)) {
					t.Errorf("%v is not revealed", cause)
				}
				continue
			}
			mustBe(t, told, cause)
		}
		if err := ContextError(tt.ctx); err.Error() != tt.text {
			t.Errorf("%q, want %q", err, tt.text)
		}
		if err := c.unavailable(tt.ctx, abandon(tt.ctx)); errors.Is(cause, cause) && err.Error() != ErrUnavailable.Error()+": "+tt.text {
			t.Errorf("%q says it twice", err)
		}
	}
	if err := ContextError(canceled(ErrClosing)); err != ErrClosed {
		t.Errorf("%v after the client has closed", err)
	}
	if err := Reveal(nil); err != nil {
		t.Error(err)
	}
}

// TestLastFailure: the error of a dialer, too, decides nothing and is revealed.
func TestLastFailure(t *testing.T) {
	err := NotSent(fmt.Errorf("%w: %w", noSession{RefusedAt(3, errors.Join(zk.ErrNoNode, ErrClosed, context.Canceled))}, ContextError(canceled(nil))))
	mustBe(t, err, ErrUnavailable, context.Canceled, zk.ErrNoNode)
	if op, _ := RefusedOp(err); op != -1 || OutcomeOf(err) != Retryable || errors.Is(err, zk.ErrNoNode) || errors.Is(err, ErrClosed) {
		t.Errorf("%v is taken for an answer", err)
	}
	if err := Reveal(noSession{context.Canceled}); errors.Is(err, context.Canceled) {
		t.Errorf("%v says that a caller gave up", err)
	}
}
