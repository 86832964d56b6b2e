package lease

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
)

// A hold is at risk when no more than half of its lease is surely left: a renewal is
// due after a third, so by then one has been failing for a sixth of the TTL. It is
// computed from the end of the lease, and so also where the process was paused, and
// where it is max_hold that ends the lease. A fixed lease is never at risk: it is
// known from the grant when it ends.

// margin is how much of the lease is left when its hold comes at risk; e.mu is held.
func (e *Entry) margin() time.Duration {
	ttl := e.lease.ttl
	if e.writing != nil { // a shorter one counts from its send
		ttl = min(ttl, e.writing.ttl)
	}
	return ttl / 2
}

// endsSoon reports whether the margin is all that is left, or less; e.mu is held.
func (e *Entry) endsSoon(now clock.Instant) bool { return e.left(now) <= e.margin() }

// threat is what the hold will be lost by if nothing changes; e.mu is held.
func (e *Entry) threat() error {
	if e.end() == e.limit() {
		return ErrMaxHold
	}
	return ErrExpired
}

// warn tells that the hold has come at risk, once until it is safe again. One that is
// over is not at risk any more: that is a loss.
func (e *Entry) warn(now clock.Instant) {
	e.mu.Lock()
	if e.state != Held || e.Fixed || e.atRisk || !e.endsSoon(now) || now.Mono >= e.end() {
		e.mu.Unlock()
		return
	}
	e.atRisk = true
	c := Change{From: Held, To: Held, Why: e.threat(), Left: max(0, e.left(now))}
	if w := e.writing; w != nil && w.flying && now.Mono-w.first.Mono > e.lease.ttl/earlyPart {
		c.Unanswered = now.Mono - w.first.Mono
	}
	if e.rare != nil {
		for _, told := range e.rare.warned {
			told <- c.Left // there is room: one is posted, and withdrawn before the next
		}
	}
	e.mu.Unlock()
	e.owner.Changed(c)
}

// AtRisk returns the channel on which one handle is told that the hold is at risk:
// for how long it is still sure to last. A hold that is at risk already tells at once.
// What the handle has not received is withdrawn when the hold is safe again or has ended.
// One that has ended returns nil.
func (e *Entry) AtRisk(handle any) <-chan time.Duration {
	now := e.keeper.clock.Local()
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
			told <- max(0, e.left(now))
		}
	}
	return told
}

// Unwarn forgets a handle that asked for warnings.
func (e *Entry) Unwarn(handle any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rare != nil {
		delete(e.rare.warned, handle)
	}
}

// withdrawWarnings takes back the warnings that no handle has received; e.mu is held.
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

// Stall is an entry that should have been renewed.
type Stall struct {
	*Entry
	For  time.Duration // since the last acknowledged write was sent
	Left time.Duration // until it ends; negative if its time has run out already
}

// Stalls returns how many holds and waits there are, how many of their entries are not renewed
// in time, and of these the one that ends first. An entry without hold or wait, such as one
// that is kept for later, does not count. It is computed from the clock, whatever the keeper
// is at.
func (k *Keeper) Stalls() (first Stall, stalled, of int) {
	now := k.clock.Local()
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

// stall reports whether the entry has a hold or a wait, and should have been renewed by now.
func (e *Entry) stall(now clock.Instant) (s Stall, used, stalls bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	used = e.state == Waiting || e.state == Held
	s = Stall{e, now.Mono - e.lease.sent.Mono, e.left(now)}
	return s, used, used && e.renews() && e.endsSoon(now) && e.threat() == ErrExpired
}
