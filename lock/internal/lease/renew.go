package lease

import (
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// tick handles an entry whose timer is due. It warns if the hold is at risk, ends the hold if the
// lease is over, and schedules the next tick. If a write is due and none is in flight, tick marks
// one as in flight and returns it; the caller must send it.
func (e *Entry) tick(now clock.Instant) (begun *write) {
	e.warn(now)
	e.change(func() {
		if e.state == Held {
			e.expire(now)
		}
		if e.state == Ended {
			return
		}
		early := e.nextTTL / earlyPart
		wanted := e.writesWanted > e.writesAcked || now.Mono+clock.Drift(e.lease.sent, now) >= e.renewAt-early
		if e.writing != nil && e.writing.flying || !wanted {
			e.schedule(e.renewAt, now)
			return
		}
		if e.writing == nil { // otherwise the write in doubt is sent again, with the same bytes
			e.writing = e.newWrite(now)
		}
		begun = e.writing
		begun.flying, begun.earlier = true, begun.doubt
		e.schedule(Never, now)
	})
	return begun
}

// scheduleNext schedules the next write: now if a caller waits for it, otherwise at renewAt; e.mu is
// held.
func (e *Entry) scheduleNext(now clock.Instant) {
	if e.writesWanted > e.writesAcked {
		e.schedule(0, now)
	} else {
		e.schedule(e.renewAt, now)
	}
}

// denied ends an entry that waits, and whose lease is over, after the server has refused a write of it:
// it can never enter. A hold ends with its lease anyway.
func (e *Entry) denied(why error, now clock.Instant) {
	e.change(func() {
		if e.state < Held && e.timeLeft(now) <= 0 {
			e.transition(Ended, fmt.Errorf("%w: write %s, the own entry: its ACL does not let us: %w", zkconn.ErrDenied, e.Path, why))
		}
	})
}

// renewNow schedules a renewal for now and returns true. It returns false if the keeper does not
// renew the entry, or if onlyOlder is set and the last acknowledged write is of the term.
func (e *Entry) renewNow(now clock.Instant, term int64, onlyOlder bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == Ended || onlyOlder && e.zxid >= term {
		return false
	}
	e.renewAt = min(e.renewAt, now.Mono)
	e.schedule(e.renewAt, now)
	return true
}

// schedule sets the entry's next tick; e.mu is held. The tick is due at the monotonic time write,
// unless a write is in flight. It is due earlier if the hold becomes at risk or ends before.
func (e *Entry) schedule(write time.Duration, now clock.Instant) {
	if e.state == Ended {
		return
	}
	due := Never
	if e.writing == nil || !e.writing.flying {
		due = write
	}
	switch {
	case e.state == Held && e.suspectSince != 0:
		due = min(due, e.end(), e.suspectSince+e.Grace)
	case e.state == Held:
		end := e.end() - clock.Drift(e.lease.sent, now)
		if due = min(due, end); !e.atRisk {
			due = min(due, end-e.margin())
		}
	}
	e.keeper.schedule(e, due, now.Mono)
}
