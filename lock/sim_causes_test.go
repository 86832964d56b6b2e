package lock_test

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
var causes = []error{
	zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrConnectionClosed, zk.ErrSessionExpired,
	lock.ErrUnavailable, lock.ErrDenied, lock.ErrForeign, &lock.HeldError{Lock: "another"},
	&lock.TxnError{Lock: "another", Index: 3, Err: zk.ErrNoNode}, fmt.Errorf("%w: %w", lock.ErrDenied, zk.ErrNoAuth),
	errors.Join(zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNoNode), // as of an errgroup's functions
}

// limit returns a context that ends after d at the latest. One in two has a cause of its own then.
func (s *sim) limit(ctx context.Context, label string, d time.Duration) (context.Context, context.CancelFunc) {
	r := s.random(fmt.Sprint("cause of ", label, time.Since(s.begun)))
	if oneIn(r, 2) {
		return context.WithTimeout(ctx, d)
	}
	s.count("causes set")
	return context.WithTimeoutCause(ctx, d, causes[r.IntN(len(causes))])
}
