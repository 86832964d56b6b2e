package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/inbox"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// MaxReason is how many bytes the reason of a [Client.Revoke] may have.
const MaxReason = znode.MaxReason

// ErrNotHeld says that the lock that was to be revoked has no holder.
var ErrNotHeld = errors.New("lock is not held")

// Revocation says which client requests the release of a lock, and why.
type Revocation struct {
	Owner  string // of the client that asks, see [WithOwner]; as it says, and so are the next three
	Host   string
	PID    int
	Reason string
	At     time.Time // when it was asked, by the clock of ZooKeeper's leader
}

// Revoke requests the release of the named lock, of any kind, from all its present holders,
// and tells them why: in words for people, at most [MaxReason] bytes of UTF-8, perhaps none.
// It returns when they are asked, and does not wait for what they do. A holder that listens
// by [Hold.Revoked] hears of it at once; another one, if it listens later. Each holder
// decides: none is forced, and one that does not listen goes on.
//
// The request stands for as long as the entry, also when the entry is handed off locally:
// then the next holder is told, too. Another Revoke replaces it, and is told too. A cached
// lease ([WithIdle]) cannot be told from a held one, and is asked. A client that takes the
// lock by another entry is not asked.
//
// It fails with [ErrNotHeld] if the lock has no holder; with [ErrForeign] if a holder is of
// another library, which cannot be asked: the others have been asked all the same; with
// [ErrDenied] if an ACL forbids it, [ErrInvalid], [ErrClosed], or ctx's error and cause.
// Then none, some or all may have been asked. It takes three reads, and one transaction for
// each holder. All clients that listen hear of a request, by one event and one list each. In
// the background it then lists all requests, and reads up to 16 of them, by two reads each,
// to delete the stale ones.
func (c *Client) Revoke(ctx context.Context, name, reason string) error {
	if err := znode.CheckReason(reason); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	bound, end, err := c.begin(ctx, "revoke", name)
	if err != nil {
		return err
	}
	defer end()
	asked, others, err := c.inbox.Ask(bound, name, reason)
	switch {
	case errors.Is(err, znode.ErrForeign), errors.Is(err, znode.ErrNewer):
		return fmt.Errorf("revoke %q: %w: %w", name, ErrForeign, err)
	case err != nil:
		return fmt.Errorf("revoke %q: %w", name, err)
	case len(others) > 0:
		return fmt.Errorf("revoke %q: %w: %s is held by another library, which cannot be asked (%d others could)", name, ErrForeign, printable(others[0]), asked)
	case asked == 0:
		return fmt.Errorf("revoke %q: %w", name, ErrNotHeld)
	}
	return nil
}

// Revoked returns a channel that tells when a client requests the release of the lock, by
// [Client.Revoke]. It tells so at once, and also if the request came before the call of
// Revoked, during this hold or an earlier one of the same entry that was handed on to it.
// The holder decides: to finish and unlock, to unlock at once, or to go on. The hold does
// not change by it.
//
// Each call for the same Hold returns the same channel; one goroutine should receive from
// it. It is never closed: wait for the hold's context too. If several requests come before a
// receive, the last one is told. A hold that has ended returns nil.
//
// The first call of a client sets a watch on the node below which all requests to the
// holders of locks of the same root stand, and lists that once; later calls cost nothing,
// unless the hold is asked. A client that never calls it has no cost by it. While
// ZooKeeper cannot be reached nothing is heard, and it is made up for after. If an ACL
// forbids to look, the log says so, once a minute.
func (h *Hold) Revoked() <-chan Revocation {
	if h.unlocked.Load() || h.Err() != nil {
		return nil
	}
	box, path := h.client.inbox, h.e.Path
	ear := box.Listen(path, h, func() inbox.Ear { return make(ear, 1) }).(ear)
	if h.unlocked.Load() { // meanwhile
		box.Forget(path, h)
	}
	if h.Err() != nil {
		box.Forget(path, h)
	}
	if err := h.e.Err(); err != nil { // not only this handle
		h.client.ended(h.e, err)
	}
	return ear
}

// ended stops telling handles of requests for the entry, which has ended. Requests for an
// entry that another holder has by now stay.
func (c *Client) ended(e *queue.Entry, why error) {
	if !e.HandedOff() {
		c.inbox.Ended(e.Path, errors.Is(why, ErrDetached) || errors.Is(why, ErrTaken))
	}
}

// deafen ends what an unlocked handle hears: risks and requests. An entry that was asked
// for is not handed off locally: the next goroutine queues.
func (h *Hold) deafen() {
	h.e.Unwarn(h)
	if h.client.inbox.Forget(h.e.Path, h) {
		h.e.Pin()
	}
}

// ear is where a handle is told.
type ear chan Revocation

// Tell replaces an unreceived request. There is one call at a time.
func (e ear) Tell(r inbox.Request) {
	select {
	case <-e:
	default:
	}
	e <- Revocation{Owner: r.Owner, Host: r.Host, PID: r.PID, Reason: r.Reason, At: time.UnixMilli(r.Stat.Ctime)}
}
