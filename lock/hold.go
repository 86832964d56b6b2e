package lock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Hold is an acquired lock. The client renews it until it is unlocked. A lost hold reports its
// loss before another contender may enter. A hold is bound neither to the session nor to the
// goroutine in which it was taken. All methods are safe for concurrent use.
//
// Pass [Hold.Context] to the work, so that it stops when the hold ends. Before a step that must not
// be cut short, compare [Hold.Remaining] with the time that the step takes. [Hold.Err] returns why
// a hold ended. [Hold.AtRisk] warns before a loss. [Hold.Revoked] delivers requests to release the
// lock. Resources that the work changes should refuse an old [Hold.Token], because a paused process
// checks nothing.
type Hold struct{ hold }

// hold has the methods that all kinds of holds have.
type hold struct {
	client   *Client
	e        *queue.Entry
	t        *tenancy // nil unless the hold may share its entry with other readers
	unlocked atomic.Bool
	permits  int32 // the semaphore's total, as given to Client.Semaphore; 0: no semaphore
}

// Name returns the name of the lock.
func (h *hold) Name() string { return h.e.Lock() }

// EntryPath returns the path of the hold's node in ZooKeeper, for logs.
func (h *hold) EntryPath() string { return h.e.Path }

// Token returns the fencing token of the hold.
func (h *hold) Token() Token {
	token := tokenOf(h.e)
	if h.t != nil {
		token.parts.Pass = h.t.pass
	}
	return token
}

// Metadata returns the entry's metadata, see [WithMetadata].
func (h *hold) Metadata() map[string]string { return maps.Clone(h.e.TermsNow().Metadata) }

// Context returns a context that ends with the hold. Its cause is a [LostError] if the hold was
// lost, [ErrUnlocked] if it was unlocked, and [ErrDetached] if it was detached. The context carries
// the values of the context that the lock was taken with, but not its end. A call with the hold's
// context re-enters the lock: see "Re-entry" in the doc of this package.
func (h *hold) Context() context.Context {
	if h.t != nil {
		return h.t.ctx
	}
	return h.e.Context(h.carriedBy)
}

// carriedBy returns ctx with the hold added, so that calls with the result re-enter the lock.
func (h *hold) carriedBy(ctx context.Context) context.Context {
	key := reentry{h.client, h.e.Lock()}
	ctx = context.WithValue(ctx, key, h.e)
	if h.t != nil {
		ctx = context.WithValue(ctx, tenant(key), h.t)
	}
	return ctx
}

// Err returns nil while the hold lasts, then [ErrUnlocked], [ErrDetached] or a [LostError].
func (h *hold) Err() error {
	if h.t != nil && h.t.ctx.Err() != nil {
		return context.Cause(h.t.ctx)
	}
	return h.t.own(h.e.Err())
}

// check returns an error if the hold, this handle of it, or ctx has ended. Each method of a hold with
// a context calls it first.
func (h *hold) check(ctx context.Context, what string) error {
	if err := h.ended(); err != nil {
		return err
	}
	return checkContext(ctx, what, h.Name())
}

// ended returns the reason if the hold, or this handle of it, has ended; nil while it lasts.
func (h *hold) ended() error {
	if err := h.Err(); err != nil || !h.unlocked.Load() {
		return err
	}
	return ErrUnlocked
}

// Remaining returns the time for which the lock is surely held even if all later renewals fail. It
// is 0 when the hold has ended. It is also 0 after the machine was suspended or the wall clock was
// set forward, until a renewal confirms that the lease did not end meanwhile. Each call computes
// the time from the clock, so the result is right even if the process was paused just before. A
// pause may also follow the call; where that matters use [Hold.Token].
func (h *hold) Remaining() time.Duration {
	if h.unlocked.Load() {
		return 0
	}
	return h.e.Remaining()
}

// AtRisk returns a channel that warns before the hold may be lost. A warning is sent when
// [Hold.Remaining] falls to half of the TTL or less, because renewals have failed or max_hold is
// near. The value is the time left at the warning; [Hold.Remaining] returns the time left now. If a
// renewal succeeds, an unreceived warning is withdrawn. The next time that the hold becomes at
// risk, there is a new warning. If the process was paused, the warning comes when it resumes,
// unless the hold was lost during the pause. If the entry is removed, the hold is lost at once,
// without a warning.
//
// While the hold lasts, each call for the same Hold returns the same channel, so you can call
// AtRisk in the select of a loop. Only one goroutine should receive from it. The channel is never
// closed: select on the hold's context too. After the hold has ended, or after Unlock of this
// handle, AtRisk returns nil.
func (h *hold) AtRisk() <-chan time.Duration {
	if h.unlocked.Load() {
		return nil
	}
	return h.e.AtRisk(h)
}

// Extend gives the hold a lease of ttl from now on, longer or shorter than before. Later renewals
// use the same ttl. Extend waits until ZooKeeper has acknowledged the write. If ctx ends first, the
// lease may or may not have changed; the earlier of the two ends counts.
//
// A ttl outside of [MinTTL] and the policy's MaxTTL is an [ErrInvalid]. If the hold has ended,
// Extend returns the reason. A reader that shares its entry, see [WithLocalWindow], cannot shorten
// the lease of the other readers.
func (h *hold) Extend(ctx context.Context, ttl time.Duration) error {
	if err := h.check(ctx, "extend"); err != nil {
		return err
	}
	if err := checkDuration("ttl", ttl, MinTTL, MaxTime); err != nil {
		return err
	}
	if most := h.client.cfg.policyOf(h.e.Lock()).MaxTTL; ttl > most {
		return invalid("ttl", ttl, "must be at most max_ttl, which is %v", most)
	}
	err := h.e.Extend(ctx, ttl)
	if err == nil || err == h.e.Err() { // its text names the lock already
		return h.t.own(err)
	}
	return zkconn.Reveal(fmt.Errorf("extend %q: %w", h.Name(), err))
}

// Unlock ends the hold: first its context, then its entry in ZooKeeper. The last client to leave
// also deletes the lock's parent. If this process takes the lock again and again, the parent is
// deleted a second after the last use. If the hold has several handles, by re-entry, the last
// Unlock ends it.
//
// Unlock does not depend on the context that the lock was taken with. It is retried over
// reconnects, for at most the client's unlock timeout. After this time Unlock fails with an
// [UnlockError], and the entry is deleted later, or expires. If the hold was lost before, Unlock
// returns its [LostError]; if it was unlocked before, [ErrUnlocked]; if it was detached,
// [ErrDetached].
func (h *hold) Unlock() error {
	if h.unlocked.Swap(true) {
		return ErrUnlocked
	}
	c := h.client
	if c.tasks.Enter() { // before the hold ends, so that Close leaves the entry to this call
		defer c.tasks.Leave()
	}
	end := time.Now().Add(c.cfg.unlockTimeout)
	leaves, err := h.endHandle(end)
	if !leaves {
		return err
	}
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	return h.t.own(c.leaveResult(h.e, c.queue.Leave(ctx, h.e)))
}

// endHandle ends a handle that was just unlocked. First it waits until no transaction of the
// handle can still be applied, but not longer than until end. leaves reports whether the caller
// must delete the entry: the handle was the last one, and the entry was not handed off locally. The
// error says why the hold had ended before, or is an UnlockError because a transaction is in doubt.
func (h *hold) endHandle(end time.Time) (leaves bool, err error) {
	h.stopDelivery()
	h.t.leave()
	last, err := h.e.UnlockHandle(&h.unlocked, end)
	if err == ErrInDoubt {
		err = &UnlockError{Lock: h.e.Lock(), Entry: h.e.Path, Err: err}
	}
	err = h.t.own(err)
	if !last || h.client.queue.HandOff(h.e) {
		return false, err
	}
	h.client.ended(h.e, ErrUnlocked)
	return true, err
}

// leaveResult converts err, the result of deleting an unlocked entry, into the result of Unlock. If
// the deletion was not confirmed, leaveResult logs that, and has the entry deleted in the
// background. If another client deleted or wrote the entry, leaveResult has the client check later
// whether the lock's parent can be deleted.
func (c *Client) leaveResult(e *queue.Entry, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrRemoved) && e.Lapsed():
		err = ErrExpired
		fallthrough
	case errors.Is(err, ErrRemoved), errors.Is(err, ErrTaken):
		e.CheckParentLater()
		return lossOf(e, err)
	}
	e.Remove()
	c.cfg.log.Warn().Err(err).Str("lock", e.Lock()).Str("entry", e.Path).
		Msg("unlock not confirmed; the entry is deleted later or expires")
	return &UnlockError{Lock: e.Lock(), Entry: e.Path, Err: err}
}

// lossOf returns the error of a lost hold.
func lossOf(e *queue.Entry, why error) error {
	return &LostError{Lock: e.Lock(), Entry: e.Path, Token: tokenOf(e), Why: why}
}
