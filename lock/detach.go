package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Detach ends the hold in this process and leaves its entry to the client that attaches with the
// ticket, see [Client.Attach]. If that client attaches in time, no other contender enters before
// it. The hold and all its handles end at once with [ErrDetached], which is no loss; [Mutex.Do]
// returns it too.
//
// The entry stays for ttl and the grace; a ttl of 0 means the TTL of the hold. If no client
// attaches in time, the entry is purged like a dead holder's.
//
// Detach fails with [ErrInvalid], and the hold goes on, if
//
//   - ttl is not within [MinTTL] and the policy's MaxTTL,
//   - the hold is a leadership, or
//   - other readers of this client share the entry (see [WithLocalWindow]). After this error no
//     other goroutine joins the entry.
//
// Detach waits until ZooKeeper has acknowledged the write. If ctx had ended before the call, Detach
// returns the context's error, and the hold goes on. If ctx ends while Detach waits, Detach returns
// the ticket and an [UnlockError], and retries the write in the background until the entry must
// have expired. If ZooKeeper refuses the write, Detach returns the ticket and an UnlockError too.
// If no write succeeds, a client that attaches waits until the lease has ended. If the hold has
// already ended, or its entry was removed, Detach returns the reason and no ticket. If ctx is a
// context of the hold, which ends now, only its deadline counts.
func (h *Hold) Detach(ctx context.Context, ttl time.Duration) (Ticket, error) {
	if err := h.check(ctx, "detach"); err != nil {
		return Ticket{}, err
	}
	if err := h.mayMove(); err != nil {
		return Ticket{}, err
	}
	c, e := h.client, h.e
	if ttl != 0 {
		if err := checkDuration("ttl", ttl, MinTTL, MaxTime); err != nil {
			return Ticket{}, err
		}
		if most := c.cfg.policyOf(e.Lock()).MaxTTL; ttl > most {
			return Ticket{}, invalid("ttl", ttl, "must be at most max_ttl, which is %v", most)
		}
	}
	if ttl == 0 {
		ttl = e.NextTTL()
	}
	if !h.t.alone() {
		return Ticket{}, h.cannot("shares its entry with other readers of this client, and cannot be detached: take it with WithLocalWindow(NoLocalWindow)")
	}
	ticket := h.ticket(ttl) // before the write: the lease lasts at least as long as the ticket says
	begun := c.clock.Mono()
	done, err := c.queue.Detach(e, ttl)
	if err != nil {
		return Ticket{}, h.t.own(err)
	}
	if carried, _ := ctx.Value(reentry{c, e.Lock()}).(*queue.Entry); carried == e { // ctx has just ended with the hold
		end, limited := ctx.Deadline()
		if ctx = context.WithoutCancel(ctx); limited {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, end)
			defer cancel()
		}
	}
	bound, release := c.bind(ctx)
	defer release()
	select {
	case err = <-done:
	case <-bound.Done():
		err = zkconn.ContextError(bound)
	}
	switch {
	// The entry was removed because a lease had ended: the hold's, or the one written for the ticket.
	case (errors.Is(err, ErrRemoved) || errors.Is(err, lease.ErrWentSince)) && (e.Lapsed() || e.IsOver() || c.clock.Mono()-begun >= ttl):
		return Ticket{}, h.t.own(lossOf(e, ErrExpired))
	case errors.Is(err, ErrRemoved), errors.Is(err, ErrTaken), errors.Is(err, ErrBroken):
		return Ticket{}, h.t.own(lossOf(e, err))
	case err != nil:
		err = &UnlockError{Lock: e.Lock(), Entry: e.Path, Err: zkconn.Reveal(err)}
	}
	return ticket, err
}

// Ticket returns a ticket for the hold while it lasts. Store it in case this process dies. A client
// that attaches with it waits until the lease and the grace have ended. Then it continues with the
// same entry, unless a waiter or the reaper has purged it. While the hold lasts, no client can
// attach. From the call on the entry is not handed off locally. If the hold has ended, Ticket
// returns the reason; for a leadership it returns an [ErrInvalid].
func (h *Hold) Ticket() (Ticket, error) {
	if err := h.ended(); err != nil { // not Err, which is nil while another handle lasts
		return Ticket{}, err
	}
	if err := h.mayMove(); err != nil {
		return Ticket{}, err
	}
	h.e.Pin() // the entry must stay for the ticket
	// Check again: the entry may have been handed off locally just before.
	if err := h.Err(); err != nil {
		return Ticket{}, err
	}
	return h.ticket(0), nil
}

// mayMove returns an error if the hold cannot continue in another process.
func (h *hold) mayMove() error {
	if h.leads() {
		return h.cannot("is a leadership, which cannot go on in another process: resign, and campaign there")
	}
	return nil
}

// cannot returns an ErrInvalid with the rule that forbids a call for this hold.
func (h *hold) cannot(rule string, args ...any) error {
	return invalid("hold of", fmt.Sprintf("%q", h.Name()), rule, args...)
}

// Attach continues a hold with the same entry: a detached one at once. The incarnation of the token
// rises by one. The number of permits stays the same. If this client dies, the entry expires as any
// other does.
//
// The options are those of [Client.Mutex], for the ticket's lock. After the attach, the TTL is that
// of the options or the policy, and max_hold counts from the attach. A hold for writing that was
// downgraded stays one for reading, even with an earlier ticket: see [RWMutex.Reads].
//
// If several clients attach with one ticket, one succeeds. The other clients, and later ones, get
// [ErrAttached]. If the entry was unlocked or force-released, or no client attached in time, the
// error is [ErrRemoved]. If the hold was not detached, see [Hold.Ticket], Attach waits until its
// lease and the grace have surely ended. The hold ends for its holder before that. Attach also
// fails as [Mutex.Lock] does, and with [ErrInvalid] for a ticket of another root.
//
// If ctx ends before the grant, or the client closes, a write in the background restores the entry,
// with the same lease. After the write the same ticket works again. [Client.Close] waits for the
// write. If the client closes at the moment of the grant, the hold ends like all other holds.
func (c *Client) Attach(ctx context.Context, t Ticket, opts ...LockOption) (*Hold, error) {
	switch {
	case t.IsZero():
		return nil, invalid("ticket", `""`, "is for nothing")
	case t.root != c.cfg.root:
		return nil, invalid("ticket", t, "is for a lock below %s, and the client's root is %s", t.root, c.cfg.root)
	case !t.kind.IsLock():
		return nil, fmt.Errorf("%w: the ticket is for a %s, which this release does not know", ErrKind, t.kind)
	}
	if err := checkContext(ctx, "attach", t.lock); err != nil {
		return nil, err
	}
	s, err := c.cfg.settingsFor(t.lock, opts)
	if err != nil {
		return nil, err
	}
	node, _ := znode.Parse(t.left.Node)
	return c.takeNew(ctx, queue.Request{
		Lock: t.lock, Kind: t.kind, Role: node.Role, Permits: node.Permits, Capacity: t.permits,
		Terms: s.terms(), KeepParent: s.KeepParent,
	}, func(q *queue.Queue, ctx context.Context, r queue.Request) (*queue.Entry, error) {
		return q.Attach(ctx, r, t.left)
	})
}
