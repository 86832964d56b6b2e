package lease

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// end is until when the entry is surely respected; e.mu is held. A write that shortens
// the lease counts from the moment it is sent, and for as long as it may have been
// applied: whatever else fails meanwhile.
func (e *Entry) end() time.Duration {
	end := e.lease.end()
	if e.writing != nil {
		end = min(end, lease{e.writing.first, e.writing.ttl}.end())
	}
	return min(end, e.limit())
}

// limit is the monotonic time at which max_hold ends the hold; e.mu is held.
func (e *Entry) limit() time.Duration {
	if e.MaxHold == 0 || e.granted == 0 {
		return Never
	}
	return e.granted + e.MaxHold
}

// left is for how long the entry is surely respected still; e.mu is held. The wall
// clock having run ahead of the monotonic one counts as time that has passed: the
// machine may have been suspended. If that is all that ended the lease, another write
// can tell that it did not.
func (e *Entry) left(now clock.Instant) time.Duration {
	return e.end() - now.Mono - clock.Drift(e.lease.sent, now)
}

// Remaining is for how long the hold is sure to last; 0 if it is not valid.
func (e *Entry) Remaining() time.Duration {
	if e.keeper == nil {
		return 0
	}
	now := e.keeper.clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != Held {
		return 0
	}
	left := e.left(now)
	if left <= 0 {
		e.schedule(0, now)
	}
	return max(0, left)
}

// IsOver reports whether other clients may have purged the entry by now.
func (e *Entry) IsOver() bool {
	if e.keeper == nil {
		return true
	}
	now := e.keeper.clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.left(now) <= 0
}

// locked returns what get reads of the entry, with e.mu held.
func locked[T any](e *Entry, get func() T) T {
	e.mu.Lock()
	defer e.mu.Unlock()
	return get()
}

// Lapsed reports whether the entry was unlocked when its lease may have run out.
func (e *Entry) Lapsed() bool { return locked(e, func() bool { return e.lapsed }) }

// Fresh reports whether a waiter may enter without writing its entry first: the
// last write was acknowledged in this session, and so lately that half the lease
// is left.
func (e *Entry) Fresh(session int64) bool {
	now := e.keeper.clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state < Held && e.writtenIn(session) && e.left(now) >= e.nextTTL/2
}

// Err returns why the entry ended, nil if it has not.
func (e *Entry) Err() error { return locked(e, func() error { return e.why }) }

// IsHeld reports whether the entry was granted and has not ended.
func (e *Entry) IsHeld() bool { return locked(e, func() bool { return e.state == Held }) }

// Recorded reports whether the grant stands in the node.
func (e *Entry) Recorded() bool { return locked(e, func() bool { return e.recorded }) }

// Quiet reports whether no write of the entry is on its way or of unknown outcome.
func (e *Entry) Quiet() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.writing == nil
}

// HeldSince is the monotonic time at which a hold of the entry began; 0: none did.
func (e *Entry) HeldSince() time.Duration {
	return locked(e, func() time.Duration { return e.granted })
}

// WrittenIn reports whether the last acknowledged write was made in that session,
// so that its server has seen all that we have.
func (e *Entry) WrittenIn(session int64) bool {
	return locked(e, func() bool { return e.writtenIn(session) })
}

// writtenIn is WrittenIn where e.mu is held. Session 0 is none: the one before has ended.
func (e *Entry) writtenIn(session int64) bool { return session != 0 && e.session == session }

// WroteSince reports whether the entry was written since that monotonic time.
func (e *Entry) WroteSince(t time.Duration) bool {
	return locked(e, func() bool { return e.lease.sent.Mono >= t })
}

// NextTTL is the lease that the next write of the entry carries: the one of its terms, or
// what it was extended to.
func (e *Entry) NextTTL() time.Duration { return locked(e, func() time.Duration { return e.nextTTL }) }

// LastWrite returns the version that the node is probably at, the one that the
// last acknowledged write left, and the bytes of one of unknown outcome, or nil.
// Requests of a session are served in order, so a write in flight comes before a
// delete.
func (e *Entry) LastWrite() (probable, acknowledged int32, pending []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing == nil {
		return e.version, e.version, nil
	}
	return e.version + 1, e.version, e.writing.data
}

// Values returns a context with the values that the hold's context keeps, or will; one
// without any if the entry has neither waiter nor holder.
func (e *Entry) Values() context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil {
		return context.Background()
	}
	return e.ctx
}

// expire ends a hold whose lease has run out; e.mu is held, by change. One that ended
// only if the machine was suspended is given a grace to be confirmed by a renewal.
func (e *Entry) expire(now clock.Instant) {
	why := e.threat()
	switch {
	case now.Mono >= e.end():
		e.transition(Ended, why)
	case e.left(now) > 0:
		e.suspectSince = 0
	case e.Fixed, e.suspectSince != 0 && now.Mono >= e.suspectSince+e.Grace:
		e.transition(Ended, why)
	case e.suspectSince == 0:
		e.suspectSince = now.Mono
	}
}

// lease is what an acknowledged write of an entry gives its owner.
type lease struct {
	sent clock.Instant // before the write was handed over
	ttl  time.Duration // that it carried
}

// end is until when other clients surely respect the lease, on the local monotonic
// clock. The leader stamped the write after it was sent, so other clients count
// from later. The margin covers the error of our clock's rate, the millisecond that
// Mtime is rounded by, and a late timer.
func (l lease) end() time.Duration {
	return l.sent.Mono + l.ttl - l.ttl/znode.RateError - time.Millisecond - timerSlack
}
