package zkconn

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
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

// TestTimeLimit: the context ends at its time, whether a goroutine waits or not. Release stops its
// timer.
func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := NewTimeLimit(time.Minute)
		if at, ok := l.Deadline(); !ok || !at.Equal(start.Add(time.Minute)) {
			t.Errorf("deadline %v, %v", at, ok)
		}
		time.Sleep(time.Minute - 1)
		if l.Err() != nil {
			t.Errorf("before its time: %v", l.Err())
		}
		<-l.Done()
		if passed := time.Since(start); passed != time.Minute || ContextError(l) != context.DeadlineExceeded {
			t.Errorf("ended after %v: %v", passed, ContextError(l))
		}
		<-l.Done() // again
		l.Release()

		unwatched := NewTimeLimit(time.Minute)
		time.Sleep(time.Minute)
		if unwatched.Err() != context.DeadlineExceeded {
			t.Errorf("at its time, without a waiter: %v", unwatched.Err())
		}
		unwatched.Release()

		released := NewTimeLimit(time.Minute)
		done := released.Done()
		released.Release()
		time.Sleep(time.Hour)
		select {
		case <-done:
			t.Error("the timer goes on after the release")
		default:
		}
	})
}
