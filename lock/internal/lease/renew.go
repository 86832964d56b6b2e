package lease

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
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
		wanted := e.writesWanted > e.writesAcked || e.renews() && now.Mono+clock.Drift(e.lease.sent, now) >= e.renewAt-early
		if e.writing != nil && e.writing.flying || !wanted {
			e.schedule(e.renewAt, now)
			return
		}
		if e.writing == nil { // otherwise the write in doubt is sent again, with the same bytes
			e.writing = &write{
				data: e.keeper.Record(&e.Terms, e.nextTTL, e.grantForRecord(), now),
				ttl:  e.nextTTL, acquired: e.acquired, wanted: e.writesWanted, first: now,
			}
		}
		begun = e.writing
		begun.flying = true
		e.schedule(Never, now)
	})
	return begun
}

// attempt reports whether a write is still wanted, and returns the version to write on.
func (e *Entry) attempt(w *write) (version int32, wanted bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.version, e.state != Ended && e.writing == w
}

// suspect records that the write may have been applied.
func (e *Entry) suspect(w *write) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.doubt = true
}

// bytesInDoubt returns the bytes of a write that may have been applied; nil if it surely was not.
func (e *Entry) bytesInDoubt(w *write) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !w.doubt {
		return nil
	}
	return w.data
}

// acknowledge handles the reply to a write, or a read that shows the write. sent and session are
// the time of the write's send and its session. The transaction zxid left the node's data at this
// version. The next write is due at sent plus next.
func (e *Entry) acknowledge(w *write, sent clock.Instant, session int64, version int32, zxid int64, next time.Duration, now clock.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing != w {
		return
	}
	e.writing, w.raised = nil, version-e.version
	e.lease, e.version, e.session, e.zxid = lease{sent, w.ttl}, version, session, zxid
	e.suspectSince = 0
	e.recorded = w.acquired != 0
	e.writesAcked = w.wanted
	e.renewAt = sent.Mono + next
	if e.atRisk && !e.endsSoon(now) {
		e.atRisk = false
		e.withdrawWarnings()
	}
	e.notify()
	e.scheduleNext(now)
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

// postpone ends the flight of a write that was not acknowledged. Unless the entry has ended,
// another try is due after a tenth of the acknowledged lease, or of the next one if that is shorter. A
// write in doubt is sent again with the same bytes. Until its outcome is known, the earlier end of its
// lease and of the acknowledged one counts.
func (e *Entry) postpone(w *write) {
	now := e.keeper.clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing != w {
		return
	}
	if w.flying = false; !w.doubt {
		e.writing = nil
	}
	e.notify()
	e.renewAt = now.Mono + min(e.nextTTL, e.lease.ttl)/10
	e.schedule(e.renewAt, now)
}

// renewNow schedules a renewal for now and returns true. It returns false if the keeper does not
// renew the entry, or if onlyOlder is set and the last acknowledged write is of the term.
func (e *Entry) renewNow(now clock.Instant, term int64, onlyOlder bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.renews() || onlyOlder && e.zxid >= term {
		return false
	}
	e.renewAt = min(e.renewAt, now.Mono)
	e.schedule(e.renewAt, now)
	return true
}

// renews reports whether the keeper renews the entry; e.mu is held.
func (e *Entry) renews() bool { return e.state != Ended }

// schedule sets the entry's next tick; e.mu is held. The tick is due at the monotonic time write,
// unless a write is in flight. It is due earlier if the hold becomes at risk or ends before.
func (e *Entry) schedule(write time.Duration, now clock.Instant) {
	if e.state == Ended {
		return
	}
	due := Never
	idle := e.writing == nil || !e.writing.flying
	if idle && (e.renews() || e.writesWanted > e.writesAcked) {
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
