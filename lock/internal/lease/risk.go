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
	e.keeper.warn(e, c.Left)
	e.mu.Unlock()
	e.owner.Changed(c)
}

// AtRisk returns the channel on which one handle is told that the hold is at risk:
// for how long it is still sure to last. A hold that is at risk already tells at once.
// What nobody has received is withdrawn when the hold is safe again or has ended. One
// that has ended returns nil.
func (e *Entry) AtRisk(handle any) <-chan time.Duration {
	now := e.keeper.clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == Ended {
		return nil
	}
	told, added := e.keeper.addWarning(e, handle)
	if added && e.atRisk {
		told <- max(0, e.left(now))
	}
	return told
}

// Unwarn forgets a handle that asked for warnings.
func (e *Entry) Unwarn(handle any) { e.keeper.removeWarning(e, handle) }

// warnings are where the handles of a hold that asked for it are told that it is at
// risk, each on a channel with room for one. They are with the keeper, because few holds
// have any, and guarded by it; what is posted and withdrawn, by the entry.
type warnings map[any]chan time.Duration

// withdraw takes back what nobody has received.
func (w warnings) withdraw() {
	for _, told := range w {
		select {
		case <-told:
		default:
		}
	}
}

func (k *Keeper) addWarning(e *Entry, handle any) (told chan time.Duration, added bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if told = k.warned[e][handle]; told != nil {
		return told, false
	}
	if k.warned[e] == nil {
		k.warned[e] = warnings{}
	}
	told = make(chan time.Duration, 1)
	k.warned[e][handle] = told
	return told, true
}

func (k *Keeper) removeWarning(e *Entry, handle any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.warned[e], handle)
}

// warn tells the handles of a hold that so much is left; e.mu is held.
func (k *Keeper) warn(e *Entry, left time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, told := range k.warned[e] {
		told <- left // there is room: one is posted, and withdrawn before the next
	}
}

// allClear withdraws the warnings of a hold that is safe again; e.mu is held.
func (k *Keeper) allClear(e *Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.warned[e].withdraw()
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
