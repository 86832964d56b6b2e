package lease

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// earlyPart limits how early a renewal may be sent to share a transaction: by TTL/earlyPart.
const earlyPart = 16

// renewAfter returns the time from the create of an entry, or an attach, to the first renewal. Later
// renewals follow by flight.next: those of one transaction stay together.
func (k *Keeper) renewAfter(ttl time.Duration) time.Duration { return k.Jitter(ttl/3, ttl/30) }

// renewOld schedules renewals before they are due. In a new term of the leader's clock, entries
// need an early stamp of that term: each entry is renewed unless its last acknowledged write is of
// that term. After an outage one entry is renewed, to learn the term. So each outage costs one
// early write, for any number of entries, unless a new term has begun.
func (k *Keeper) renewOld(now clock.Instant) {
	term := k.Clock.Now().Term
	outage, newer := k.outage.Swap(false), term > k.term.Swap(term)
	if !outage && !newer {
		return
	}
	for _, e := range k.Entries() {
		if renewed := e.renewNow(now, term, newer); renewed && !newer {
			return
		}
	}
}

// renewDue handles all due entries, and sends the writes that they need in the background. If the last
// transaction has room, it also renews entries that are due soon. Renewals of one transaction are
// due together again. Further entries keep their own due times, so the transactions of many holds
// are spread over time.
func (k *Keeper) renewDue(ctx context.Context, now clock.Instant) {
	var batch []*write
	size := 0
	send := func() {
		full := batch
		k.Background(func() { k.flush(ctx, full) })
		batch, size = nil, 0
	}
	renew := func(due []*Entry) {
		for _, e := range due {
			w := e.tick(now)
			if w == nil {
				continue
			}
			if len(batch) > 0 && size+w.size() > zkconn.BatchBytes {
				send()
			}
			batch = append(batch, w)
			size += w.size()
		}
	}
	renew(k.takeDue(math.MaxInt, func(e *Entry) bool { return e.due <= now.Mono }))
	if len(batch) > 0 {
		room := zkconn.BatchBytes*len(batch)/size - len(batch) // further entries, if they are as large as these
		renew(k.takeDue(room, func(e *Entry) bool { return e.due <= now.Mono+e.TTL/earlyPart }))
		send()
	}
}

// takeDue returns the first entries for which due is true, at most n. It sets their due time to Never,
// so they are not returned again before they are scheduled.
func (k *Keeper) takeDue(n int, due func(*Entry) bool) []*Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	var taken []*Entry
	for len(taken) < n && len(k.queue) > 0 && due(k.queue[0]) {
		e := k.queue[0]
		taken = append(taken, e)
		e.due = Never
		heap.Fix(&k.queue, 0)
	}
	return taken
}

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
	e.keeper.setDue(e, due, now.Mono)
}
