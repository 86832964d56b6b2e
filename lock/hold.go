package lock

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Hold is an acquired lock. It is renewed until it is unlocked. If it is lost, it tells so
// before another contender may enter. A hold is bound neither to the
// session nor to the goroutine in which it was taken. All methods are safe for
// concurrent use.
//
// Which to look at: give [Hold.Context] to the work, so that it stops when the hold ends, and
// receive from its Done in a select. Before a step that must not be cut short, compare
// [Hold.Remaining] with the time that the step takes. [Hold.Err] says why a hold ended.
// [Hold.AtRisk] warns before, and [Hold.Revoked] tells that another client asks for the lock.
// What the work changes should refuse an old [Hold.Token]: a process that is paused looks at
// nothing.
type Hold struct {
	client   *Client
	e        *queue.Entry
	t        *tenancy // of a hold that may share its entry with others; else nil
	unlocked atomic.Bool
	permits  int32 // that its semaphore was made with
}

// Name returns the name of the lock.
func (h *Hold) Name() string { return h.e.Lock() }

// EntryPath returns the path of the hold's node in ZooKeeper, for logs.
func (h *Hold) EntryPath() string { return h.e.Path }

// Token returns the fencing token of the hold.
func (h *Hold) Token() Token {
	token := tokenOf(h.e)
	if h.t != nil {
		token.Pass = h.t.pass
	}
	return token
}

// Metadata returns the pairs that the entry carries.
func (h *Hold) Metadata() map[string]string { return maps.Clone(h.e.Described()) }

// Context returns a context that ends with the hold: with [LostError] as its
// cause when it is lost, and with [ErrUnlocked] when it is unlocked, or [ErrDetached]. It carries
// the values of the context that the lock was taken with, but not its end, and
// with it the same lock can be taken again: see "Re-entry" in the doc of this package.
func (h *Hold) Context() context.Context {
	if h.t != nil {
		return h.t.ctx
	}
	return h.e.Context(h.carriedBy)
}

// carriedBy returns ctx as one with which the lock is taken again.
func (h *Hold) carriedBy(ctx context.Context) context.Context {
	key := reentry{h.client, h.e.Lock()}
	ctx = context.WithValue(ctx, key, h.e)
	if h.t != nil {
		ctx = context.WithValue(ctx, tenant(key), h.t)
	}
	return ctx
}

// Err returns nil while the hold lasts, then [ErrUnlocked], [ErrDetached] or a [LostError].
func (h *Hold) Err() error {
	if h.t != nil && h.t.ctx.Err() != nil {
		return context.Cause(h.t.ctx)
	}
	return h.e.Err()
}

// check is the first that each call with a context does: it returns why the hold or the
// context has ended.
func (h *Hold) check(ctx context.Context, what string) error {
	if err := h.ended(); err != nil {
		return err
	}
	return checkContext(ctx, what, h.Name())
}

// ended returns why the hold has ended, or this handle of it; nil while it lasts.
func (h *Hold) ended() error {
	if err := h.Err(); err != nil || !h.unlocked.Load() {
		return err
	}
	return ErrUnlocked
}

// Remaining returns for how long the lock is surely held even if no renewal
// succeeds any more. It is 0 when the hold has ended; and for a while after the
// machine was suspended or its wall clock was set forward, until a renewal
// confirms that the lease did not run out meanwhile. It is computed from the clock when it is
// asked, so it is right even if the process was paused just before; but nothing can say what
// it was paused after. Where that matters use [Hold.Token].
func (h *Hold) Remaining() time.Duration {
	if h.unlocked.Load() {
		return 0
	}
	return h.e.Remaining()
}

// AtRisk returns a channel that tells, well before the hold is lost, that it may be:
// when no more than half of the TTL is left for sure, because renewals have failed or
// max_hold is near. The value is what was left then; [Hold.Remaining] returns what is left
// now. If a renewal succeeds, an unreceived warning is withdrawn. Once safe, a hold can come
// at risk again and tells so again. A process that was paused is told when it goes on, if
// the hold has not been lost by then.
//
// Each call for the same Hold returns the same channel, so that it can stand in the
// select of a loop; one goroutine should receive from it. It is never closed: wait for the
// hold's context too. The lease of [WithoutRenewal] is never at risk: it is known when it
// ends.
func (h *Hold) AtRisk() <-chan time.Duration {
	if h.unlocked.Load() {
		return nil
	}
	return h.e.AtRisk(h)
}

// Extend gives the hold a lease of ttl from now on, longer or shorter than
// before, and later renewals carry it too. It waits until ZooKeeper has
// acknowledged it. If ctx ends first, the lease may or may not have been changed,
// and of the two ends the earlier one counts. A ttl outside of [MinTTL] and the
// policy's MaxTTL is an [ErrInvalid]; a hold that has ended returns why. A reader that
// shares its entry, see [WithLocalWindow], cannot shorten the lease of the others.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) error {
	if err := h.check(ctx, "extend"); err != nil {
		return err
	}
	if err := checkDuration("ttl", ttl, MinTTL, MaxTime); err != nil {
		return err
	}
	if most := h.client.cfg.policyOf(h.e.Lock()).MaxTTL; ttl > most {
		return invalid("ttl", ttl, "must not be longer than max_ttl, %v", most)
	}
	return h.e.Extend(ctx, ttl)
}

// Unlock ends the hold: its context first, then the entry in ZooKeeper, and with
// the last one out the lock's parent; that of a lock which this process takes again
// and again goes when it has not done so for a second. Unlock does not depend on the
// context that the lock was taken with, is retried over reconnects, and fails after
// the client's unlock timeout; then the entry is deleted later if that can be done, or
// expires. A hold that had been lost returns its [LostError], and one that was
// unlocked before [ErrUnlocked]; one that was detached [ErrDetached].
//
// If the hold has several handles, by re-entry, the last Unlock ends it.
func (h *Hold) Unlock() error {
	if h.unlocked.Swap(true) {
		return ErrUnlocked
	}
	c := h.client
	if c.tasks.Enter() { // before the hold ends, from when on Close leaves its entry to us
		defer c.tasks.Leave()
	}
	leaves, err := h.giveBack(c.cfg.unlockTimeout)
	if !leaves {
		return err
	}
	limit := zkconn.NewTimeLimit(c.cfg.unlockTimeout)
	defer limit.Release()
	return c.left(h.e, c.queue.Leave(zkconn.Uncancellable(limit), h.e))
}

// giveBack gives back a handle that was just unlocked, when no transaction by it can be applied
// any more. It reports whether the entry is to leave: the handle was the last one, and no other
// goroutine of the client goes on with it. The error tells why the hold had ended before.
func (h *Hold) giveBack(within time.Duration) (leaves bool, err error) {
	h.deafen()
	h.t.leave()
	last, err := h.e.Release(&h.unlocked, within)
	if err == ErrInDoubt {
		err = &UnlockError{Lock: h.e.Lock(), Entry: h.e.Path, Err: err}
	}
	if !last || h.client.queue.HandOff(h.e) {
		return false, err
	}
	h.client.ended(h.e, ErrUnlocked)
	return true, err
}

// left makes of what came of the deletion of an unlocked entry what the unlock returns.
func (c *Client) left(e *queue.Entry, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrRemoved) && e.Lapsed():
		err = ErrExpired
		fallthrough
	case errors.Is(err, ErrRemoved), errors.Is(err, ErrTaken):
		c.queue.CheckParentLater(e)
		return lossOf(e, err)
	}
	c.queue.Remove(e)
	c.cfg.log.Warn().Err(err).Str("lock", e.Lock()).Str("entry", e.Path).
		Msg("unlock not confirmed; the entry is deleted later or expires")
	return &UnlockError{Lock: e.Lock(), Entry: e.Path, Err: err}
}

// lossOf makes the error that a hold tells of its loss.
func lossOf(e *queue.Entry, why error) error {
	return &LostError{Lock: e.Lock(), Entry: e.Path, Token: tokenOf(e), Why: why}
}
