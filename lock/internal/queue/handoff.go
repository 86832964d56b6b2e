package queue

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/place"
)

// HandOff passes an entry that was just unlocked to the next goroutine of this process, or exchanges
// it for a new one, as [place.Place.Release] decides by the local window. It does not block. If it
// returns false, the caller must delete the entry's node.
func (q *Queue) HandOff(e *Entry) bool {
	s := e.lock
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := e.place
	if p == nil {
		return false
	}
	defer p.goOn()
	switch next, until := p.Release(e, q.Clock.Mono(), e.Passable(q.Conn.Session())); next {
	case place.Pass:
		p.pass(e, until)
		return true
	case place.Exchange:
		p.begin(e, true, 0)
		return true
	}
	return false
}

// pass gives an unlocked entry to the first waiter, until the end of its window. If a write is in flight,
// a join awaits that. lock.mu is held.
func (p *placed) pass(e *Entry, until time.Duration) {
	if n, err := e.successor(noWait); err == nil {
		p.serve(n, until) // if the lease has ended just now, goOn begins a join
	} else {
		e.handedOff.Store(true)
		p.begin(e, false, until)
	}
}

// Unplace removes an entry from its place, because it has ended without an unlock, or because its
// hold only reads from now on. The place's waiters get another entry.
func (e *Entry) Unplace() {
	s := e.lock
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := e.place; p != nil && p.Drop(e) {
		p.goOn()
	}
}
