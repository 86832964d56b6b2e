package zkconn

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Backoff sets the pauses between attempts. Each pause is a random time from half of a span to all
// of it. The span begins with First, and doubles after each pause up to Most.
type Backoff struct{ First, Most time.Duration }

// DefaultBackoff is the backoff of most requests: 20 ms up to a second.
var DefaultBackoff = Backoff{20 * time.Millisecond, time.Second}

// ErrAgain makes Retry call the attempt again at once.
var ErrAgain = errors.New("try again")

// later is an error after which Retry pauses and tries again.
type later struct{ error }

func (e later) Unwrap() error { return e.error }

// Later wraps an error, not nil. Retry then pauses and tries again, whatever the error is.
func Later(err error) error { return later{err} }

// final is an error after which Retry ends.
type final struct{ error }

// Final wraps an error, not nil, that Retry returns as it is.
func Final(err error) error { return final{err} }

// Retry calls attempt until it returns nil or an error after which Retry ends:
//
//   - [ErrAgain]: Retry calls attempt again at once;
//   - [Later], and any error that is [Retryable] or [Ambiguous]: Retry calls attempt again after a
//     pause;
//   - [Final], and any error that is [Refused]: Retry returns the error.
//
// If ctx ends during a pause, Retry returns the last error with [ErrUnavailable] and the context's
// error and cause; after ErrAgain only the context's. If the connection is closed during a pause,
// Retry returns the last error with [ErrClosed].
func (c *Conn) Retry(ctx context.Context, b Backoff, attempt func() error) error {
	for span := b.First; ; span = min(2*span, b.Most) {
		err := attempt()
		for errors.Is(err, ErrAgain) {
			if ctx.Err() != nil {
				return ContextError(ctx)
			}
			err = attempt()
		}
		if err == nil {
			return nil
		}
		if end := (final{}); errors.As(err, &end) {
			return end.error
		}
		if OutcomeOf(err) == Refused && !errors.As(err, new(later)) {
			return err
		}
		if err := c.pause(ctx, c.cfg.Jitter(span*3/4, span/4), err); err != nil {
			return err
		}
	}
}

// pause waits for d. If ctx ends or the connection is closed first, it returns an error that wraps
// why.
func (c *Conn) pause(ctx context.Context, d time.Duration, why error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return c.unavailable(ctx, why)
	case <-c.open.Done():
		return fmt.Errorf("%w: %w", context.Cause(c.open), why)
	}
}

// unavailable wraps the error of an attempt after ctx has ended.
func (c *Conn) unavailable(ctx context.Context, err error) error {
	if !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", c.NoSession(), err)
	}
	if e := (*ended)(nil); errors.As(err, &e) && e.is(ctx) || errors.Is(err, ErrClosed) && context.Cause(ctx) == ErrClosing {
		return err // an attempt has seen the end, too
	}
	return fmt.Errorf("%w: %w", err, ContextError(ctx))
}

// Jitter returns a random time from d-by to d+by.
func (c Config) Jitter(d, by time.Duration) time.Duration {
	return d - by + time.Duration(c.Random.Int64N(int64(2*by)+1))
}
