package admin

import (
	"errors"
	"slices"

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

// Answered reports whether err is a server's refusal of a request, and not for example an error of the
// caller's own code.
func Answered(err error) bool { return zkconn.OutcomeOf(Answer(err)) == zkconn.Refused }

// Log returns the client's log.
func (t Tree) Log() *zerolog.Logger { return &t.c.Log }
