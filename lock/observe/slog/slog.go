// Package slog has an observer that logs the ordinary life of locks: waits, locks
// acquired after how long a wait, and locks released after how long a hold.
//
//	logger := slog.Default() // of log/slog; observe is this package
//	locks, err := lock.Dial(start, servers, lock.WithSlog(logger), lock.WithObserver(observe.New(logger)))
//
// What goes wrong is left out: holds at risk and lost, purges and displacements of the
// leader's clock are logged by the client itself, where [lock.WithSlog] says.
package slog

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/holdfast-io/holdfast/lock"
)

// Observer logs events at the level info. Make one with New; it is safe for concurrent use.
type Observer struct{ log *slog.Logger }

// New returns an observer that logs there; nil is [slog.Default]. A handler that blocks holds up the client's other
// observers, and nothing else. It gets the context that the lock was asked for with, such as
// that of a trace.
func New(log *slog.Logger) *Observer { return &Observer{cmp.Or(log, slog.Default())} }

// Observe logs an event.
func (o *Observer) Observe(ctx context.Context, e lock.Event) {
	fields := []slog.Attr{slog.String("lock", e.Lock), slog.String("policy", e.Policy)}
	if e.Entry != "" { // else it waits without one
		fields = append(fields, slog.String("entry", e.Entry))
	}
	tell := func(message string, more ...slog.Attr) {
		o.log.LogAttrs(ctx, slog.LevelInfo, message, append(fields, more...)...)
	}
	switch token := slog.String("token", e.Token.String()); e.Kind {
	case lock.EventWaiting:
		if e.Ahead != 0 { // else it is not known
			fields = append(fields, slog.Int("ahead", e.Ahead))
		}
		tell("waiting for the lock")
	case lock.EventAcquired:
		tell("lock acquired", token, slog.Duration("waited", e.Waited))
	case lock.EventWithdrawn:
		tell("waiting no longer", slog.Duration("waited", e.Waited))
	case lock.EventReleased:
		tell("lock released", token, slog.Duration("held", e.Held))
	}
}
