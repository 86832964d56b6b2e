// Package slog has an observer that logs normal events of locks: waits, grants with the time
// waited, and releases with the time held.
//
//	logger := slog.Default() // of log/slog; observe is this package
//	locks, err := lock.Dial(start, servers, lock.WithSlog(logger), lock.WithObserver(observe.New(logger)))
//
// The observer logs no problems. The client itself logs holds at risk, lost holds, purges, and
// steps of the leader's clock, to the logger of [lock.WithSlog].
package slog

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/holdfast-io/holdfast/lock"
)

// Observer logs events at the level info. Make one with [New]. It is safe for concurrent use.
type Observer struct{ log *slog.Logger }

// New returns an observer that logs to log; nil means [slog.Default]. A handler that blocks delays
// the client's other observers, and nothing else. The handler receives the values of the context
// that the lock was requested with, such as a trace.
func New(log *slog.Logger) *Observer { return &Observer{cmp.Or(log, slog.Default())} }

// Observe logs an event, if it is a wait, a grant, a withdrawal or a release.
func (o *Observer) Observe(ctx context.Context, e lock.Event) {
	fields := []slog.Attr{slog.String("lock", e.Lock), slog.String("policy", e.Policy)}
	if e.Entry != "" { // some waiters have no entry
		fields = append(fields, slog.String("entry", e.Entry))
	}
	tell := func(message string, more ...slog.Attr) {
		o.log.LogAttrs(ctx, slog.LevelInfo, message, append(fields, more...)...)
	}
	switch token := slog.String("token", e.Token.String()); e.Kind {
	case lock.EventWaiting:
		if e.Ahead != 0 { // 0: unknown
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
