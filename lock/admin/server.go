package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/servercheck"
)

// ServerReport is what [CheckServer] has found.
type ServerReport struct {
	// Refused says why locks cannot rest on the server that the session is with, as an
	// [lock.ErrUnsupported]; nil if nothing speaks against it.
	Refused error
	// Unchecked says why that could not be looked at to the end, such as an ACL
	// ([lock.ErrDenied]); nil if it was.
	Unchecked error
	// Servers are those that the client was made with by [lock.Dial], in their order;
	// none of a client made by [lock.New].
	Servers []ServerRelease
}

// ServerRelease is what one server tells of itself.
type ServerRelease struct {
	Address string
	// Release is such as "3.9.5"; "" if the server tells none, as where the four-letter
	// word srvr is not permitted.
	Release string
	// Warning says in one line what the release is known for, and what to do; "" if
	// nothing, or if it is not known.
	Warning string
	// Err says why the server could not be asked; nil if it could.
	Err error
}

// CheckServer looks whether the server that the client's session is with does what locks
// rest on, by transactions below the root that leave nothing behind, and asks each of the
// client's servers for its release. It takes about a tenth of a second. The error says that
// neither could be done: there was no session, or ctx ended.
func CheckServer(ctx context.Context, client *lock.Client) (ServerReport, error) {
	c, ok := access.Of(client)
	switch {
	case !ok:
		return ServerReport{}, fmt.Errorf("%w: client: must be made by Dial or New", lock.ErrInvalid)
	case ctx == nil:
		return ServerReport{}, fmt.Errorf("%w: context: must not be nil", lock.ErrInvalid)
	}
	var r ServerReport
	err := c.Check.Full(ctx)
	var unchecked *servercheck.Unchecked
	switch {
	case errors.As(err, &unchecked):
		r.Unchecked = unchecked.Why
	case errors.Is(err, lock.ErrUnsupported):
		r.Refused = err
	case err != nil:
		return ServerReport{}, fmt.Errorf("check the server: %w", err)
	}
	r.Servers = releases(ctx, c)
	for _, s := range r.Servers {
		if r.Refused == nil && s.keeper() {
			r.Refused = servercheck.Keeper(s.Address + " calls itself " + s.Release)
		}
	}
	return r, nil
}

func (s ServerRelease) keeper() bool { return version{s.Release}.isKeeper() }

// releases asks all servers at once.
func releases(ctx context.Context, c access.Client) []ServerRelease {
	found := make([]ServerRelease, len(c.Conn.Servers()))
	var asked sync.WaitGroup
	for i, address := range c.Conn.Servers() {
		asked.Go(func() {
			s := &found[i]
			s.Address = address
			var answer string
			if answer, s.Err = c.Conn.Word(ctx, address, "srvr"); s.Err != nil {
				return
			}
			if v, ok := parseVersion(answer); ok {
				s.Release, s.Warning = v.release, v.warning()
			}
		})
	}
	asked.Wait()
	return found
}
