// Package zerolog has an observer that logs normal events of locks: waits, grants with the time
// waited, and releases with the time held.
//
//	locks, err := lock.Dial(start, servers, lock.WithLogger(logger), lock.WithObserver(zerolog.New(logger)))
//
// The observer logs no problems. The client itself logs holds at risk, lost holds, purges, and
// steps of the leader's clock, to the logger of [lock.WithLogger].
package zerolog

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
)

// Observer logs events at the level info. Make one with [New]. It is safe for concurrent use; the
// logger's writer must be too.
type Observer struct{ log zerolog.Logger }

// New returns an observer that logs to log. A writer that blocks delays the client's other
// observers, and nothing else.
func New(log zerolog.Logger) *Observer { return &Observer{log} }

// Observe logs an event, if it is a wait, a grant, a withdrawal or a release.
func (o *Observer) Observe(_ context.Context, e lock.Event) {
	line := o.log.Info().Str("lock", e.Lock).Str("policy", e.Policy)
	if e.Entry != "" { // some waiters have no entry
		line.Str("entry", e.Entry)
	}
	switch e.Kind {
	case lock.EventWaiting:
		if e.Ahead != 0 { // 0: unknown
			line.Int("ahead", e.Ahead)
		}
		line.Msg("waiting for the lock")
	case lock.EventAcquired:
		line.Stringer("token", e.Token).Stringer("waited", e.Waited).Msg("lock acquired")
	case lock.EventWithdrawn:
		line.Stringer("waited", e.Waited).Msg("waiting no longer")
	case lock.EventReleased:
		line.Stringer("token", e.Token).Stringer("held", e.Held).Msg("lock released")
	default:
		line.Discard().Send()
	}
}
