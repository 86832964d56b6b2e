package lease

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
)

// A hold is at risk when at most half of its lease is surely left. A renewal is due after a third
// of the TTL. So when half is left, renewals have failed for about a sixth of the TTL. Risk is
// computed from the end of the lease, so it covers a paused process, and a lease that max_hold
// ends.

// margin returns the part of the lease that is left when the hold becomes at risk; e.mu is held.
func (e *Entry) margin() time.Duration {
	ttl := e.lease.ttl
	if e.writing != nil { // a write that shortens the lease counts as soon as it is sent
		ttl = min(ttl, e.writing.ttl)
	}
	return ttl / 2
}

// endsSoon reports whether at most the margin is left; e.mu is held.
func (e *Entry) endsSoon(now clock.Instant) bool { return e.timeLeft(now) <= e.margin() }

// threat returns the reason for which the hold will be lost if nothing changes; e.mu is held.
func (e *Entry) threat() error {
	if e.end() == e.limit() {
		return ErrMaxHold
	}
	return ErrExpired
}

// warn reports to the owner and to the channels of AtRisk that the hold is at risk. It does so once
// until the hold is safe again. A hold whose lease is over is lost, not at risk.
func (e *Entry) warn(now clock.Instant) {
	e.mu.Lock()
	if e.state != Held || e.atRisk || !e.endsSoon(now) || now.Mono >= e.end() {
		e.mu.Unlock()
		return
	}
	e.atRisk = true
	c := e.risk(now)
	if w := e.writing; w != nil && w.flying && now.Mono-w.first.Mono > e.lease.ttl/earlyPart {
		c.Unanswered = now.Mono - w.first.Mono
	}
	if e.rare != nil {
		for _, told := range e.rare.warned {
			told <- c.Left // the buffer has room: each warning is withdrawn before the next
		}
	}
	e.mu.Unlock()
	e.owner.Changed(c)
}

// Risk returns the change that reports the hold at risk, with the present time left, if the hold is
// at risk now.
func (e *Entry) Risk() (c Change, atRisk bool) {
	now := e.keeper.Clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != Held || !e.atRisk {
		return Change{}, false
	}
	return e.risk(now), true
}

// risk returns the change that reports the hold at risk; e.mu is held.
func (e *Entry) risk(now clock.Instant) Change {
	return Change{From: Held, To: Held, Why: e.threat(), Left: max(0, e.timeLeft(now)), Leased: e.lease.sent.Mono}
}

// AtRisk returns a handle's channel. When the hold becomes at risk, the channel receives the time
// left. If the hold is already at risk, a new channel receives the time left at once. An unreceived
// warning is withdrawn when the hold is safe again or has ended. If the hold has ended, AtRisk
// returns nil.
func (e *Entry) AtRisk(handle any) <-chan time.Duration {
	now := e.keeper.Clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == Ended {
		return nil
	}
	r := e.with()
	told := r.warned[handle]
	if told == nil {
		if told = make(chan time.Duration, 1); r.warned == nil {
			r.warned = map[any]chan time.Duration{}
		}
		if r.warned[handle] = told; e.atRisk {
			told <- max(0, e.timeLeft(now))
		}
	}
	return told
}

// Unwarn forgets the channel that AtRisk made for the handle.
func (e *Entry) Unwarn(handle any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rare != nil {
		delete(e.rare.warned, handle)
	}
}

// withdrawWarnings empties the channels of AtRisk; e.mu is held.
func (e *Entry) withdrawWarnings() {
	if e.rare == nil {
		return
	}
	for _, told := range e.rare.warned {
		select {
		case <-told:
		default:
		}
	}
}

// Stall is an entry whose renewal is overdue.
type Stall struct {
	*Entry
	For  time.Duration // time since the last acknowledged write was sent
	Left time.Duration // time until the lease ends; negative if it has ended
}

// Stalls returns the number of entries that wait or are held, how many of them are not renewed in
// time, and of these the entry whose lease ends first. Stalls computes this from the clock, so the
// result is right even if the keeper's goroutine hangs.
func (k *Keeper) Stalls() (first Stall, stalled, of int) {
	now := k.Clock.Local()
	for _, e := range k.Entries() {
		s, used, stalls := e.stall(now)
		if used {
			of++
		}
		if !stalls {
			continue
		}
		if stalled++; stalled == 1 || s.Left < first.Left {
			first = s
		}
	}
	return first, stalled, of
}

// stall reports whether the entry waits or is held, and if so, whether its renewal is overdue.
func (e *Entry) stall(now clock.Instant) (s Stall, used, stalls bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	used = e.state == Waiting || e.state == Held
	s = Stall{e, now.Mono - e.lease.sent.Mono, e.timeLeft(now)}
	return s, used, used && e.endsSoon(now) && e.threat() == ErrExpired
}
