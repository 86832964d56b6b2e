package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Detach ends the hold in this process and leaves its entry to the client that attaches to
// it with the ticket, see [Client.Attach]: no other contender enters in between. First the
// hold and all its handles end with [ErrDetached]. That is no loss; [Mutex.Do] returns it
// too. The entry then stays for ttl, 0 for that of the hold, and for the grace. If no client
// has attached by then, it is purged as that of a dead holder is. Detach fails with
// [ErrInvalid], and the hold goes on, if ttl is outside of [MinTTL] and the policy's MaxTTL,
// the hold is a leadership, or other readers of this client share its entry (see
// [WithLocalWindow]); in the last case no other goroutine joins the entry any more.
//
// Detach waits until ZooKeeper has acknowledged it. If ctx had ended before, nothing changes.
// If ctx ends meanwhile, or the write fails for a reason that may pass, Detach returns the
// ticket and an [UnlockError]. The write goes on in the background for a while. If it never
// succeeds, a client that attaches waits until the lease has ended. A hold that had ended
// before returns why, and no ticket; so does one whose entry turns out to be gone.
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
			return Ticket{}, invalid("ttl", ttl, "must not be longer than max_ttl, %v", most)
		}
	}
	if ttl == 0 {
		ttl = e.NextTTL()
	}
	if !h.t.alone() {
		return Ticket{}, h.cannot("shares its entry with other readers of this client, and cannot be detached: take it with WithLocalWindow(0)")
	}
	ticket := h.ticket(ttl) // before the write: a client can attach until then at least
	begun := c.clock.Mono()
	done, err := c.queue.Detach(e, ttl)
	if err != nil {
		return Ticket{}, err
	}
	bound, release := c.bind(ctx)
	defer release()
	select {
	case err = <-done:
	case <-bound.Done():
		err = zkconn.ContextError(bound)
	}
	switch {
	case (errors.Is(err, ErrRemoved) || errors.Is(err, queue.ErrWentSince)) && (e.Lapsed() || e.IsOver() || c.clock.Mono()-begun >= ttl): // or by the lease that it was left with
		return Ticket{}, lossOf(e, ErrExpired)
	case errors.Is(err, ErrRemoved), errors.Is(err, ErrTaken), errors.Is(err, ErrBroken):
		return Ticket{}, lossOf(e, err)
	case err != nil:
		err = &UnlockError{Lock: e.Lock(), Entry: e.Path, Err: err}
	}
	return ticket, err
}

// Ticket returns a ticket for the hold while it lasts. Store it for the case that this
// process dies. A client that attaches then waits until the lease has ended, TTL and grace
// after the last renewal, and goes on by the same entry; unless a waiter behind it, or the
// reaper, has purged the entry before. As long as the hold lives, no client can attach. A hold
// that has ended returns why, and a leadership an [ErrInvalid].
func (h *Hold) Ticket() (Ticket, error) {
	if err := h.ended(); err != nil { // others may read by the entry still
		return Ticket{}, err
	}
	if err := h.mayMove(); err != nil {
		return Ticket{}, err
	}
	h.e.Pin() // the entry stays for the ticket
	// Asked again after that, as the entry may have been passed on just before.
	if err := h.Err(); err != nil {
		return Ticket{}, err
	}
	return h.ticket(0), nil
}

// mayMove returns an error if the hold cannot go on in another process.
func (h *Hold) mayMove() error {
	if h.leads() {
		return h.cannot("is a leadership, which cannot go on in another process: resign, and campaign there")
	}
	return nil
}

// cannot is the error of a call that is not for holds of this kind.
func (h *Hold) cannot(rule string, args ...any) error {
	return invalid("hold of", fmt.Sprintf("%q", h.Name()), rule, args...)
}

// Enqueue joins the queue, or takes the lock if it is free, and leaves that place to the
// client that attaches with the ticket: a short-lived worker can keep its place, exit, and
// come back. The place is kept for the mutex's TTL ([WithTTL]) and the grace. It is not
// renewed meanwhile: come back in time. If its turn comes before a client has attached, it
// blocks all waiters behind it for as long.
//
// Enqueue fails as [Mutex.Lock] does, and with [ErrInvalid] for a mutex that barges, which
// has no queue.
func (m *Mutex) Enqueue(ctx context.Context) (Ticket, error) {
	if m.r.barging {
		return Ticket{}, invalid("mutex", m.r.name, "must not barge: there is no place to keep without a queue")
	}
	return m.r.enqueue(ctx, znode.Exclusive)
}

// Enqueue leaves a place to write by, as [Mutex.Enqueue] does.
func (m *RWMutex) Enqueue(ctx context.Context) (Ticket, error) {
	return m.r.enqueue(ctx, znode.Writer)
}

// REnqueue leaves a place to read by, as [Mutex.Enqueue] does. A later writer waits for it.
func (m *RWMutex) REnqueue(ctx context.Context) (Ticket, error) {
	return m.r.enqueue(ctx, znode.Shared)
}

// Enqueue leaves a place for n permits, as [Mutex.Enqueue] does. If its turn comes before a
// client has attached, it blocks all waiters behind it, even if their permits are free.
// It fails as [Semaphore.Acquire] does.
func (s *Semaphore) Enqueue(ctx context.Context, n int) (Ticket, error) {
	r, err := s.permitsOf(ctx, n)
	if err != nil {
		return Ticket{}, err
	}
	return s.r.client.enqueue(ctx, r)
}

func (r *recipe) enqueue(ctx context.Context, role znode.Role) (Ticket, error) {
	request, err := r.request(ctx, role)
	if err != nil {
		return Ticket{}, err
	}
	return r.client.enqueue(ctx, request)
}

func (c *Client) enqueue(ctx context.Context, r queue.Request) (Ticket, error) {
	h, err := c.take(c.anew(ctx, r.Lock), r, (*queue.Queue).Enqueue)
	if err != nil {
		return Ticket{}, err
	}
	t := h.ticket(r.Terms.TTL)
	t.left.Until = c.clock.Millis(h.e.LeasedAt()) + r.Terms.TTL.Milliseconds()
	return t, nil
}

// Attach goes on with a hold, or a place in a queue, that was left by a ticket: by the same
// entry, with a token whose incarnation is one higher. It waits until it is its turn; what
// was held is held at once. The options are those of [Client.Mutex], for the name of the
// ticket; the TTL is from then on as they or the policy say, and max_hold begins anew. A hold
// for writing that was downgraded is one for reading still, also by a ticket from before that:
// see [Hold.Reads]. Permits are as many as they were.
//
// If several clients attach with one ticket, one succeeds; the others get [ErrAttached], and
// so do later ones. If the entry is gone, by an unlock or because no client attached in
// time, the error is [ErrRemoved]. If a hold was not detached, see [Hold.Ticket], Attach waits
// until its lease has surely ended; its holder has learned of the loss by then.
//
// If ctx ends first, or the client closes, the place is kept for as long as it was before.
// The same ticket is good for another try once that is written: in the background, and Close
// waits for it. A hold that was acquired just as the client closes ends as holds do then.
// Otherwise Attach fails as [Mutex.Lock] does, and with [ErrInvalid] for a ticket of another
// root.
func (c *Client) Attach(ctx context.Context, t Ticket, opts ...LockOption) (*Hold, error) {
	switch {
	case t.IsZero():
		return nil, invalid("ticket", `""`, "is for nothing")
	case t.root != c.cfg.root:
		return nil, invalid("ticket", t, "is for a lock below %s, and the client's root is %s", t.root, c.cfg.root)
	case t.kind != znode.Mutex && t.kind != znode.RW && t.kind != znode.Semaphore:
		return nil, fmt.Errorf("%w: the ticket is for a %s, which this release does not know", ErrKind, t.kind)
	}
	if err := checkContext(ctx, "attach", t.lock); err != nil {
		return nil, err
	}
	s, err := c.cfg.settingsFor(t.lock, opts)
	switch {
	case err != nil:
		return nil, err
	case s.barging:
		return nil, invalid("option", "WithBarging", "does not go with a ticket, which is for a place in the queue")
	}
	node, _ := znode.Parse(t.left.Node)
	return c.take(c.anew(ctx, t.lock), queue.Request{
		Lock: t.lock, Kind: t.kind, Role: node.Role, Permits: node.Permits, Capacity: t.permits,
		Terms: s.terms(), KeepParent: s.KeepParent,
	}, func(q *queue.Queue, ctx context.Context, r queue.Request) (*queue.Entry, error) {
		return q.Attach(ctx, r, t.left)
	})
}
