package zkconn

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Backoff is how long the pauses between tries are: between half and all of a span
// that begins with First and doubles up to Most.
type Backoff struct{ First, Most time.Duration }

// ErrAgain is what an attempt returns that is to be made once more at once.
var ErrAgain = errors.New("to be tried again")

// later is an error after which to pause and try once more, whatever it is.
type later struct{ error }

func (e later) Unwrap() error { return e.error }

// Later wraps an error, not nil, after which an attempt is to be made once more, after
// a pause, whatever the error is.
func Later(err error) error { return later{err} }

// final is an error after which nothing is tried again, whatever it is.
type final struct{ error }

// Final wraps an error, not nil, that Retry is to return as it is.
func Final(err error) error { return final{err} }

// Retry calls attempt until that returns nil or an error that is final. [ErrAgain] is
// tried again at once; [Later], and what is [Retryable] or [Ambiguous], after a pause;
// what is [Final] or [Refused] is returned.
//
// When ctx ends it returns the last error, as one that is [ErrUnavailable] and the
// context's error and cause. When the connection is closed it returns the last error
// as one that is [ErrClosed].
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

// pause waits, or returns why there is to be no other try after one that failed with
// why.
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

// unavailable is the error of what failed with err when ctx had ended.
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
