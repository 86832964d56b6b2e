package lock

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"
)

// Hold is a lock that is had. It is renewed until it is unlocked, and it tells
// when it is lost: before anybody else may enter. A hold is bound neither to the
// session nor to the goroutine in which it was taken. All methods are safe for
// concurrent use, and for a nil Hold, which is one that was unlocked long ago.
type Hold struct {
	e        *entry
	unlocked atomic.Bool
}

// none stands for the entry of a nil Hold.
var none = &entry{state: ended, why: ErrUnlocked, values: context.Background(), index: -1}

func (h *Hold) entry() *entry {
	if h == nil || h.e == nil {
		return none
	}
	return h.e
}

// Name returns the name of the lock.
func (h *Hold) Name() string { return h.entry().lock }

// Entry returns the path of the hold's node in ZooKeeper, for logs.
func (h *Hold) Entry() string { return h.entry().path }

// Token returns the fencing token of the hold.
func (h *Hold) Token() Token { return h.entry().token() }

// Metadata returns the pairs that the entry carries.
func (h *Hold) Metadata() map[string]string { return maps.Clone(h.entry().metadata) }

// Context returns a context that ends with the hold: with [LostError] as its
// cause when it is lost, and with [ErrUnlocked] when it is unlocked. It carries
// the values of the context that the lock was taken with, but not its end, and
// with it the same lock can be taken again: see [Mutex.Lock].
func (h *Hold) Context() context.Context { return h.entry().context() }

// Done is closed when the hold has ended, lost or unlocked. [Hold.Err] says why.
func (h *Hold) Done() <-chan struct{} { return h.entry().context().Done() }

// Err returns nil while the hold lasts, then [ErrUnlocked] or a [LostError].
func (h *Hold) Err() error { return h.entry().err() }

// Valid reports whether the lock is surely had at this moment. It is computed
// from the clock when it is asked, so it is right even if the process was paused
// just before; but nothing can say what it was paused after. Where that matters
// use [Hold.Token].
func (h *Hold) Valid() bool { return h.Remaining() > 0 }

// Remaining returns for how long the lock is surely had even if no renewal
// succeeds any more. It is 0 when the hold has ended; and for a while after the
// machine was suspended or its wall clock was set forward, until a renewal
// confirms that the lease did not run out meanwhile.
func (h *Hold) Remaining() time.Duration {
	e := h.entry()
	if e == none || h.unlocked.Load() {
		return 0
	}
	return e.remaining(e.client.now())
}

// Extend gives the hold a lease of ttl from now on, longer or shorter than
// before, and later renewals carry it too. It waits until ZooKeeper has
// acknowledged it. If ctx ends first, the lease may or may not have been changed,
// and of the two ends the earlier one counts. A ttl outside of [MinTTL] and the
// policy's MaxTTL is an [ErrInvalid]; a hold that has ended returns why.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) error {
	e := h.entry()
	if err := h.Err(); err != nil {
		return err
	}
	if h.unlocked.Load() {
		return ErrUnlocked
	}
	if ctx == nil {
		return invalid("context", nil, "must not be nil")
	}
	if err := checkDuration("ttl", ttl, MinTTL, MaxTime); err != nil {
		return err
	}
	if ttl > e.MaxTTL {
		return invalid("ttl", ttl, "must not be longer than max_ttl, %v", e.MaxTTL)
	}
	e.setTTL(ttl)
	return e.refresh(ctx)
}

// Unlock ends the hold: its context first, then the entry in ZooKeeper, and with
// the last one out the lock's parent; that of a lock which this process takes again
// and again goes when it has not done so for 50 ms. Unlock does not depend on the
// context that the lock was taken with, is retried over reconnects, and fails after
// the client's unlock timeout; then the entry is deleted later if that can be done, or
// expires. A hold that had been lost returns its [LostError], and one that was
// unlocked before [ErrUnlocked].
//
// Of a lock that was taken several times through its context, the last Unlock
// ends the hold.
func (h *Hold) Unlock() error {
	e := h.entry()
	if e == none || h.unlocked.Swap(true) {
		return ErrUnlocked
	}
	last, err := e.unlock(e.client.now())
	if err != nil || !last {
		return err
	}
	c := e.client
	if !c.tasks.enter() {
		return ErrClosed
	}
	defer c.tasks.leave()
	ctx := newTimeLimit(c.cfg.unlockTimeout)
	defer ctx.release()
	err = e.leave(inPlace{ctx})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrRemoved) && e.lapsed:
		err = ErrExpired
		fallthrough
	case errors.Is(err, ErrRemoved), errors.Is(err, ErrTaken):
		return &LostError{Lock: e.lock, Entry: e.path, Token: e.token(), Why: err}
	}
	c.discard(e)
	c.cfg.log.Error().Err(err).Str("lock", e.lock).Str("entry", e.path).
		Msg("unlock not confirmed; the entry is deleted later or expires")
	return &UnlockError{Lock: e.lock, Entry: e.path, Err: err}
}
