package admin

import (
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Mends reports whether another try may succeed after the error of a call, without a change to the program,
// the names of its locks, or its rights: after an outage, a server's failure, or while a quota is exceeded.
func Mends(err error) bool {
	err = Answer(err)
	if clock.Refused(err) {
		return true
	}
	return !slices.ContainsFunc([]error{
		lock.ErrInvalid, lock.ErrClosed, lock.ErrDenied, lock.ErrKind, lock.ErrForeign, lock.ErrUnsupported,
	}, func(final error) bool { return errors.Is(err, final) })
}

// ServerFailed reports whether err [Mends], and is a server's refusal of a request that has no other fault:
// the server failed, or a quota is exceeded. It is false for all errors of the caller's own code.
func ServerFailed(err error) bool {
	answer := Answer(err)
	return Mends(err) && zkconn.OutcomeOf(answer) == zkconn.Refused && !errors.Is(answer, zk.ErrNoNode) && !errors.Is(answer, zk.ErrNoAuth)
}

// Log returns the client's log.
func (t Tree) Log() *zerolog.Logger { return &t.c.Log }
