package zkconn

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Backoff sets the pauses between tries: between half and all of a span that begins with First
// and doubles up to Most.
type Backoff struct{ First, Most time.Duration }

// DefaultBackoff is the backoff between attempts after the connection has failed.
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

// Retry calls attempt until it returns nil or a final error. After [ErrAgain] it tries again at
// once; after [Later], and errors that are [Retryable] or [Ambiguous], after a pause. It returns
// errors that are [Final] or [Refused].
//
// When ctx ends it returns the last error with [ErrUnavailable] and the context's error and
// cause. When the connection is closed it returns the last error with [ErrClosed].
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

// pause waits for a while. If ctx ends or the connection is closed first, it returns the error,
// which wraps why.
func (c *Conn) pause(ctx context.Context, d time.Duration, why error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return unavailable(ctx, why)
	case <-c.open.Done():
		return fmt.Errorf("%w: %w", context.Cause(c.open), why)
	}
}

// unavailable wraps the error of an attempt after ctx has ended.
func unavailable(ctx context.Context, err error) error {
	if !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if cause := context.Cause(ctx); errors.Is(err, cause) && (cause == ErrClosed || errors.Is(err, ctx.Err())) {
		return err
	}
	return fmt.Errorf("%w: %w", err, ContextError(ctx))
}

// Jitter returns d plus or minus at most by.
func (c Config) Jitter(d, by time.Duration) time.Duration {
	return d - by + time.Duration(c.Random.Int64N(int64(2*by)+1))
}
