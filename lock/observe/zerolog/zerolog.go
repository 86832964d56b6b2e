// Package zerolog has an observer that logs the ordinary life of locks: waits, locks
// acquired after how long a wait, and locks released after how long a hold.
//
//	locks, err := lock.Dial(start, servers, lock.WithLogger(logger), lock.WithObserver(zerolog.New(logger)))
//
// What goes wrong is left out: holds at risk and lost, purges and displacements of the
// leader's clock are logged by the client itself, where [lock.WithLogger] says.
package zerolog

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
)

// Observer logs events at the level info. Make one with New; it is safe for concurrent
// use, as its logger's writer has to be.
type Observer struct{ log zerolog.Logger }

// New returns an observer that logs there. A writer that blocks holds up the client's other
// observers, and nothing else.
func New(log zerolog.Logger) *Observer { return &Observer{log} }

// Observe logs an event.
func (o *Observer) Observe(_ context.Context, e lock.Event) {
	line := o.log.Info().Str("lock", e.Lock).Str("policy", e.Policy)
	if e.Entry != "" { // else it waits without one
		line.Str("entry", e.Entry)
	}
	switch e.Kind {
	case lock.EventWaiting:
		if e.Ahead != 0 { // else it is not known
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
