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

// ErrNotHeld says that nobody holds the lock that was to be revoked.
var ErrNotHeld = errors.New("lock is not held by anybody")

// Revocation says who asks for a lock to be given up, and why.
type Revocation struct {
	Owner  string // of the client that asks, see [WithOwner]; as it says, and so are the next three
	Host   string
	PID    int
	Reason string
	At     time.Time // when it was asked, by the clock of ZooKeeper's leader
}

// Revoke asks all who hold the named lock now, whatever its kind is, to give it up, and
// tells them why: in words for people, at most [MaxReason] bytes of UTF-8, which may be none.
// It returns when they are asked, and does not wait for what they do. Those whose
// [Hold.Revoked] somebody listens to hear of it at once, others if they listen later. What
// comes of it they decide: nobody is forced, and whoever does not listen goes on.
//
// The request stands for as long as the entry that it asks, also when that is handed on
// within its process: then the next holder is told, too. Another Revoke replaces it, and is
// told too. An entry that is kept though nobody holds the lock ([WithIdle]) cannot be told from
// one that is held, and is asked. Whoever takes the lock by another entry is not asked.
//
// It fails with [ErrNotHeld] if nobody holds the lock; with [ErrForeign] if who does is
// another library's, which cannot be asked: others beside it have been asked all the same;
// with [ErrDenied] if an ACL forbids it, [ErrInvalid], [ErrClosed], or ctx's error and
// cause. Then none, some or all may have been asked. It takes three reads, and one
// transaction for each who is asked; and all clients that listen hear that somebody is
// asked, by one event and one list each. In the background it then lists the requests that
// there are, and looks at up to 16 of them, by two reads each, to delete those that are moot.
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

// Revoked returns a channel that tells when somebody asks for the lock to be given up, by
// [Client.Revoke]: at once, and also if that was before Revoked was called, as long as it
// was during the hold, or the one before whose entry was handed on to it. Whoever is asked
// decides: to finish and unlock, to unlock at once, or to go on. The hold does not change by
// it.
//
// Each call for the same Hold returns the same channel; one goroutine should receive from
// it. It is never closed: wait for [Hold.Done] too. If several ask before somebody has
// received from it, the last one is told. A hold that has ended, and a nil one, return nil.
//
// The first call of a client sets a watch on the node below which all requests to the
// holders of locks of the same root stand, and lists that once; later calls cost nothing,
// unless the hold is asked. A client that never calls it has no cost by it. While
// ZooKeeper cannot be reached nothing is heard, and it is made up for after. If an ACL
// forbids to look, the log says so, once a minute.
func (h *Hold) Revoked() <-chan Revocation {
	if h.none() || h.unlocked.Load() || h.Err() != nil {
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

// ended has nobody told any more that the entry, which has ended, is asked for. What
// somebody else has by now is asked still.
func (c *Client) ended(e *queue.Entry, why error) {
	if !e.HandedOff() {
		c.inbox.Ended(e.Path, errors.Is(why, ErrDetached) || errors.Is(why, ErrTaken))
	}
}

// deafen has a handle that is unlocked hear no more: neither of risks nor of those who ask.
// What was asked for is not passed on in this process: whoever comes next had better queue.
func (h *Hold) deafen() {
	h.e.Unwarn(h)
	if h.client.inbox.Forget(h.e.Path, h) {
		h.e.Pin()
	}
}

// ear is where a handle is told.
type ear chan Revocation

// Tell replaces what nobody has received. There is one call at a time.
func (e ear) Tell(r inbox.Request) {
	select {
	case <-e:
	default:
	}
	e <- Revocation{Owner: r.Owner, Host: r.Host, PID: r.PID, Reason: r.Reason, At: time.UnixMilli(r.Stat.Ctime)}
}
