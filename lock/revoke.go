package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/revoke"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Revocation is a request to release a lock.
type Revocation struct {
	// Owner (see [WithOwner]), Host, PID and Reason are as the requesting client states them.
	Owner  string
	Host   string
	PID    int
	Reason string
	At     time.Time // time of the request, by the clock of ZooKeeper's leader
}

// Revoke requests the release of the named lock, of any kind, from all its present holders. The
// reason is a text for people, at most [MaxReason] bytes of UTF-8, or empty. Revoke returns when
// the requests are written; it does not wait for the holders' decisions. A holder receives the
// request from [Hold.Revoked]: at once, or when it begins to listen. Each holder decides: no hold
// is forced to end, and a holder that does not listen goes on.
//
// A request lasts as long as the entry of the hold. While no holder has received it, the entry may
// be handed off locally, and the next holder that listens receives it. A client that attaches to a
// detached hold receives it too. A client that takes the lock with another entry does not. A later
// Revoke replaces the request, and is delivered too. When the entry has ended, the request is
// deleted, sooner or later.
//
// The errors:
//
//   - [ErrNotHeld] if the lock has no holder;
//   - [ErrForeign] if a holder uses another library, and cannot receive requests; the requests to
//     all other holders are written;
//   - [ErrInvalid] if an argument is not allowed;
//   - [ErrDenied] if an ACL forbids the request;
//   - [ErrClosed] if the client was closed;
//   - the error and cause of ctx, if it ends.
//
// After any of the last three errors, none, some or all holders may have a request.
//
// Revoke takes a sync, a list, some reads, and for each holder a transaction; if that holder
// already has a request, also a read and a second transaction. Each client that listens gets one
// event, and makes one list. In the background Revoke then lists all requests, and reads up to 16
// of them, by two reads each, to delete stale ones.
func (c *Client) Revoke(ctx context.Context, name, reason string) error {
	if err := znode.CheckReason(reason); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	bound, end, err := c.begin(ctx, "revoke", name)
	if err != nil {
		return err
	}
	defer end()
	asked, others, err := c.revoke.Ask(bound, name, reason)
	switch {
	case errors.Is(err, znode.ErrForeign), errors.Is(err, znode.ErrNewer):
		return fmt.Errorf("revoke %q: %w: %w", name, ErrForeign, err)
	case err != nil:
		return zkconn.Reveal(fmt.Errorf("revoke %q: %w", name, err))
	case len(others) > 0:
		return fmt.Errorf("revoke %q: %w: %s is held by another library, which cannot be asked (%d others were)", name, ErrForeign, printable(others[0]), asked)
	case asked == 0:
		return fmt.Errorf("revoke %q: %w", name, ErrNotHeld)
	}
	return nil
}

// Revoked returns a channel that delivers requests to release the lock, made by [Client.Revoke]. It
// delivers new requests at once. It also delivers an earlier request: one made before the call of
// Revoked, or during an earlier hold of the same entry that was handed off locally. The holder
// decides: finish and unlock, unlock at once, or go on. The request itself does not change the
// hold.
//
// Each call for the same Hold returns the same channel; one goroutine should receive from it. It is
// never closed: select on the hold's context too. If several requests come before a receive, the
// channel delivers the last one. If the hold has ended, Revoked returns nil.
//
// A client's first call sets a watch on the parent of all requests, and lists the requests once.
// Later calls cost nothing, unless there is a request for the hold. A client that never calls
// Revoked has no cost. While ZooKeeper is unreachable, requests are delayed. If an ACL forbids the
// read, the client logs that, once a minute.
func (h *hold) Revoked() <-chan Revocation {
	if h.unlocked.Load() || h.Err() != nil {
		return nil
	}
	requests, path := h.client.revoke, h.e.Path
	revoked := requests.Listen(path, h, func() revoke.Listener { return make(revocations, 1) }).(revocations)
	if h.unlocked.Load() { // it was unlocked meanwhile
		requests.Forget(path, h)
	}
	if h.Err() != nil {
		requests.Forget(path, h)
	}
	if err := h.e.Err(); err != nil { // the whole hold has ended, not only this handle
		h.client.ended(h.e, err)
	}
	return revoked
}

// ended stops the delivery of requests for an entry that has ended. If the entry was handed off
// locally, ended does nothing: the entry has another holder.
func (c *Client) ended(e *queue.Entry, why error) {
	if !e.HandedOff() {
		c.revoke.Ended(e.Path, errors.Is(why, ErrDetached) || errors.Is(why, ErrTaken))
	}
}

// stopDelivery stops the delivery of warnings and requests to an unlocked handle. If the handle has
// a request, the entry is not handed off locally.
func (h *hold) stopDelivery() {
	h.e.Unwarn(h)
	if h.client.revoke.Forget(h.e.Path, h) {
		h.e.Pin()
	}
}

// revocations is the channel that Revoked returns.
type revocations chan Revocation

// Tell delivers a request, in place of an unreceived one. Only one call runs at a time, so the send
// does not block.
func (c revocations) Tell(r revoke.Request) {
	select {
	case <-c:
	default:
	}
	c <- Revocation{Owner: r.Owner, Host: r.Host, PID: r.PID, Reason: r.Reason, At: time.UnixMilli(r.Stat.Ctime)}
}
