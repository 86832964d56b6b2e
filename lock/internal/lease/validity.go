package lease

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// end returns the monotonic time until which other clients surely respect the entry; e.mu is held.
// A write that shortens the lease counts from its send on, until it is known not to be applied.
func (e *Entry) end() time.Duration {
	end := e.lease.end()
	if e.writing != nil {
		end = min(end, lease{e.writing.first, e.writing.ttl}.end())
	}
	return min(end, e.limit())
}

// limit returns the monotonic time at which MaxHold ends the hold, or Never; e.mu is held.
func (e *Entry) limit() time.Duration {
	if e.MaxHold == 0 || e.granted == 0 {
		return Never
	}
	return e.granted + e.MaxHold
}

// timeLeft returns the time for which other clients surely still respect the entry; e.mu is held. If
// the wall clock ran ahead of the monotonic clock, the difference counts as passed time: the machine
// may have been suspended. If only the difference ended the lease, the hold is in doubt, see expire.
func (e *Entry) timeLeft(now clock.Instant) time.Duration {
	return e.end() - now.Mono - clock.Drift(e.lease.sent, now)
}

// Remaining returns the time for which the hold surely lasts; 0 if the entry is not held, or the
// hold may be over. In the second case a renewal is scheduled at once.
func (e *Entry) Remaining() time.Duration {
	now := e.keeper.Clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != Held {
		return 0
	}
	left := e.timeLeft(now)
	if left <= 0 {
		e.schedule(0, now)
	}
	return max(0, left)
}

// IsOver reports whether the lease may have ended, so other clients may have purged the entry.
func (e *Entry) IsOver() bool {
	now := e.keeper.Clock.Local()
	return locked(e, func() bool { return e.timeLeft(now) <= 0 })
}

// locked returns a value that get reads from the entry, with e.mu held.
func locked[T any](e *Entry, get func() T) T {
	e.mu.Lock()
	defer e.mu.Unlock()
	return get()
}

// Lapsed reports whether the lease may have ended before the entry was unlocked or detached.
func (e *Entry) Lapsed() bool { return locked(e, func() bool { return e.lapsed }) }

// Fresh reports whether a contender may enter without writing its entry first: the last write was
// acknowledged in that session, and half of the lease is left. It is false once the entry is held.
func (e *Entry) Fresh(session int64) bool {
	now := e.keeper.Clock.Local()
	return locked(e, func() bool { return e.state < Held && e.fresh(session, now) })
}

// fresh is Fresh for an entry in any state; e.mu is held.
func (e *Entry) fresh(session int64, now clock.Instant) bool {
	return e.writtenIn(session) && e.timeLeft(now) >= e.nextTTL/2
}

// Err returns why the entry ended; nil if it has not.
func (e *Entry) Err() error { return locked(e, func() error { return e.why }) }

// Recorded reports whether the node's record has the grant, by the last acknowledged write.
func (e *Entry) Recorded() bool { return locked(e, func() bool { return e.recorded }) }

// HeldSince returns the monotonic time of the grant; 0: not granted.
func (e *Entry) HeldSince() time.Duration {
	return locked(e, func() time.Duration { return e.granted })
}

// WrittenIn reports whether the last acknowledged write was made in that session. If so, the
// session's server has seen all acknowledged writes of the entry.
func (e *Entry) WrittenIn(session int64) bool {
	return locked(e, func() bool { return e.writtenIn(session) })
}

// writtenIn is WrittenIn with e.mu held. It is false for session 0, which means that there is none.
func (e *Entry) writtenIn(session int64) bool { return session != 0 && e.session == session }

// WroteSince reports whether the last acknowledged write was sent at that monotonic time or later.
func (e *Entry) WroteSince(t time.Duration) bool {
	return locked(e, func() bool { return e.lease.sent.Mono >= t })
}

// NextTTL returns the length of the lease that the next write gives: TTL of the terms, or what
// Extend has set.
func (e *Entry) NextTTL() time.Duration { return locked(e, func() time.Duration { return e.nextTTL }) }

// LongestTTL returns the longest lease that the node may have: that of the last acknowledged write,
// or of the next one.
func (e *Entry) LongestTTL() time.Duration {
	return locked(e, func() time.Duration { return max(e.lease.ttl, e.nextTTL) })
}

// Values returns a context with the values that the hold's context has, or will have. The context
// has no values if the entry has neither waiter nor holder.
func (e *Entry) Values() context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil {
		return context.Background()
	}
	return e.ctx
}

// expire ends a hold whose lease is over; e.mu is held, by change. If the lease is over only when a
// possible suspend of the machine is counted, the hold is in doubt: a renewal has the time Grace to
// confirm the hold.
func (e *Entry) expire(now clock.Instant) {
	why := e.threat()
	switch {
	case now.Mono >= e.end():
		e.transition(Ended, why)
	case e.timeLeft(now) > 0:
		e.suspectSince = 0
	case e.suspectSince != 0 && now.Mono >= e.suspectSince+e.Grace:
		e.transition(Ended, why)
	case e.suspectSince == 0:
		e.suspectSince = now.Mono
	}
}

// lease is the lease that a write gives an entry.
type lease struct {
	sent clock.Instant // just before the write was sent
	ttl  time.Duration
}

// end returns the time until which other clients surely respect the lease, on the local monotonic
// clock. The leader stamps the write after its send, so other clients count from a later time. The
// subtracted time covers the rate error of the local clock, the rounding of Mtime to milliseconds,
// and a late timer.
func (l lease) end() time.Duration {
	return l.sent.Mono + l.ttl - l.ttl/znode.RateError - time.Millisecond - timerSlack
}
