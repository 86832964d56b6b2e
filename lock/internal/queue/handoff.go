package queue

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/place"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// dropPlace forgets the place of a hold that no other goroutine waits for: a client may have very
// many. lock.mu is held.
func (p *placed) dropPlace() {
	s := p.lock
	e, held := p.Holder()
	if !held || !p.HeldAlone() || s.soleHold != nil || p.counting || p.watched || p.Shared || p.Idle > 0 ||
		p.like.Kind == znode.Semaphore || e.Pass > 0 || !s.places.remove(p) {
		return
	}
	s.soleHold, e.place = e, nil
	e.window, e.barging, e.keepsParent = int32(p.like.Window/time.Millisecond), p.like.Barging, p.like.KeepParent
}

// restorePlace makes the place of a resting entry anew, for a request that can have the entry; s.mu
// is held.
func (s *lockState) restorePlace(q *Queue, r *Request) {
	e := s.soleHold
	if e == nil || e.likeness() != r.likeness() {
		return
	}
	s.soleHold, e.place = nil, s.placeFor(q, r)
	e.place.Hold(e, place.Use{}, e.HeldSince())
	q.close(s) // the place keeps it open now
}

// HandOff gives an entry that was just unlocked to the next goroutine of this process, keeps
// it for one, or exchanges it for one that joins. If it reports false the entry is to leave.
func (q *Queue) HandOff(e *Entry) bool {
	s := e.lock
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := e.place
	if p == nil {
		q.clearSoleHold(e)
		return false
	}
	defer p.goOn()
	if s.barged() {
		p.NoteContention()
	}
	switch p.Released(e, q.Clock.Mono(), e.passable() && q.Closing.Err() == nil) {
	case place.Pass:
		p.pass(e)
		return true
	case place.Exchange:
		if !e.Quiet() { // Unlock waits until what is on its way cannot be applied any more
			return false
		}
		p.begin(e, place.Exchange, place.Use{})
		return true
	case place.Keep:
		n, err := e.next(noWait)
		if err == nil {
			p.Store(n, e)
			p.lookAfter()
			return true
		}
		p.Drop(e)
	}
	return false
}

// pass gives an unlocked entry to the first waiter: at once if no write is on its way and the
// lease is fresh, else by a join that goes on from it. lock.mu is held.
func (p *placed) pass(e *Entry) {
	use := p.Use(e)
	p.Drop(e)
	n, err := e.next(noWait)
	if err != nil {
		e.handedOff.Store(true)
		p.begin(e, place.Pass, use)
		return
	}
	if next, _ := admit(position{admitted: true}, n.Fresh(p.queue.Conn.Session())); next != enter {
		p.begin(n, place.Take, use)
		return
	}
	w := p.Next()
	if p.grant(w, n, use) != nil { // it has ended just now
		p.Return(w)
		return
	}
	w.Served <- place.Turn[*Entry]{Entry: n}
}

// Unplace takes an entry from its place, because it has ended otherwise than by an unlock, or
// is another one than it was: the waiters get another entry.
func (e *Entry) Unplace() {
	s := e.lock
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := e.place; p == nil {
		e.queue.clearSoleHold(e)
	} else if p.Drop(e) {
		p.goOn()
	}
}

// clearSoleHold ends the rest of an entry that leaves; its lock state is locked.
func (q *Queue) clearSoleHold(e *Entry) {
	if s := e.lock; s.soleHold == e {
		s.soleHold = nil
		q.close(s)
	}
}
