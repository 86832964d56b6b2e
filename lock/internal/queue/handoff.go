package queue

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/place"
)

// shrinkToSoleHold replaces a place by a sole hold if only one goroutine uses the place. A sole
// hold takes less memory, and a client may have very many holds. shrinkToSoleHold does nothing if
// expandSoleHold could not make the same place again. lock.mu is held.
func (p *placed) shrinkToSoleHold() {
	s := p.lock
	e, _ := p.Holder()
	if !p.HeldAlone() || s.soleHold != nil || p.Shared || p.like.Permits > 0 || e.Pass > 0 || !p.forget() {
		return
	}
	s.soleHold, e.place = e, nil
	e.window, e.barging, e.keepsParent = int32(p.like.Window/time.Millisecond), p.like.Barging, p.like.KeepParent
}

// expandSoleHold makes the place of a sole hold again if the request is like that of the hold; s.mu
// is held.
func (s *lockState) expandSoleHold(q *Queue, r *Request) {
	e := s.soleHold
	if e == nil || e.request().likeness() != r.likeness() {
		return
	}
	s.soleHold, e.place = nil, s.placeFor(q, r)
	e.place.Hold(e, 0, e.HeldSince())
	q.close(s) // now the place keeps the state open
}

// HandOff passes an entry that was just unlocked to the next goroutine of this process, or exchanges
// it for a new one. It does not block. If it returns false, the caller must delete the entry's node.
func (q *Queue) HandOff(e *Entry) bool {
	s := e.lock
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := e.place
	if p == nil {
		s.clearSoleHold(e)
		return false
	}
	defer p.goOn()
	switch next, until := p.Release(e, q.Clock.Mono(), e.Passable(q.Conn.Session()) && q.Closing.Err() == nil); next {
	case place.Pass:
		p.pass(e, until)
		return true
	case place.Exchange:
		if !e.Quiet() { // Unlock waits until no write in flight can be applied any more
			return false
		}
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
	if p := e.place; p == nil {
		s.clearSoleHold(e)
	} else if p.Drop(e) {
		p.goOn()
	}
}

// clearSoleHold forgets the sole hold e, which leaves; s.mu is held.
func (s *lockState) clearSoleHold(e *Entry) {
	if s.soleHold == e {
		s.soleHold = nil
		e.queue.close(s)
	}
}
