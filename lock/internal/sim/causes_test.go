// Causes with which contexts end.

package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
)

// causes are errors of other calls, with which contexts end: no check of a history takes one of them
// for the answer to a call, and the library must not either.
var causes = []struct {
	name string
	err  error
}{
	{"no node", zk.ErrNoNode}, {"bad version", zk.ErrBadVersion}, {"no auth", zk.ErrNoAuth}, {"node exists", zk.ErrNodeExists},
	{"not empty", zk.ErrNotEmpty}, {"connection closed", zk.ErrConnectionClosed}, {"session expired", zk.ErrSessionExpired},
	{"unavailable", lock.ErrUnavailable}, {"removed", lock.ErrRemoved}, {"denied", lock.ErrDenied}, {"foreign", lock.ErrForeign},
	{"held", &lock.HeldError{Lock: "another"}}, {"transaction", &lock.TxnError{Lock: "another", Index: 3, Err: zk.ErrNoNode}},
	{"denied by the server", fmt.Errorf("%w: %w", lock.ErrDenied, zk.ErrNoAuth)},
	{"several", errors.Join(zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNoNode)}, // as of an errgroup's functions
}

// ofCause is the event that a context has ended with a cause.
func ofCause(name string) string { return "contexts ended by the cause " + name }

// limit returns a context that ends after d at the latest. One in two has a cause of its own then.
func (s *sim) limit(ctx context.Context, label string, d time.Duration) (context.Context, context.CancelFunc) {
	r := s.random(fmt.Sprint("cause of ", label, time.Since(s.begun)))
	if oneIn(r, 2) {
		return context.WithTimeout(ctx, d)
	}
	cause := causes[r.IntN(len(causes))]
	limited, cancel := context.WithTimeoutCause(ctx, d, cause.err)
	return limited, func() {
		if context.Cause(limited) == cause.err {
			s.count(ofCause(cause.name))
		}
		cancel()
	}
}

// within returns a context that ends after the step's time, if it has one.
func (s *sim) within(ctx context.Context, label string, one step) (context.Context, context.CancelFunc) {
	if !one.has("within") {
		return context.WithCancel(ctx)
	}
	return s.limit(ctx, label, one.time("within"))
}
