package zkconn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
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

// uncancellable is a context that no caller ends before its deadline.
type uncancellable struct{ context.Context }

// Uncancellable marks a context that ends only at its deadline, or never if it has none. A call
// with the marked context may run in the caller's goroutine, and then ignores the end of the
// context. That saves two switches between goroutines.
func Uncancellable(ctx context.Context) context.Context { return uncancellable{ctx} }

// TimeLimit is a context that ends after a time, like one of context.WithTimeout. Its timer is
// started at the first call of Done, because timers are expensive.
type TimeLimit struct {
	context.Context
	deadline time.Time
	once     sync.Once
	done     chan struct{}
	timer    *time.Timer
}

// NewTimeLimit returns a context that ends after d.
func NewTimeLimit(d time.Duration) *TimeLimit {
	return &TimeLimit{Context: context.Background(), deadline: time.Now().Add(d)}
}

// Deadline returns the time at which the context ends.
func (l *TimeLimit) Deadline() (time.Time, bool) { return l.deadline, true }

// Done returns a channel that is closed when the context ends.
func (l *TimeLimit) Done() <-chan struct{} {
	l.once.Do(func() {
		l.done = make(chan struct{})
		l.timer = time.AfterFunc(time.Until(l.deadline), func() { close(l.done) })
	})
	return l.done
}

// Err returns nil before the context ends, then context.DeadlineExceeded.
func (l *TimeLimit) Err() error {
	if time.Now().Before(l.deadline) {
		return nil
	}
	return context.DeadlineExceeded
}

// Release stops the timer. Done must not be called for the first time afterwards.
func (l *TimeLimit) Release() {
	l.once.Do(func() {})
	if l.timer != nil {
		l.timer.Stop()
	}
}
