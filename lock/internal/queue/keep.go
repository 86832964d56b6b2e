package queue

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// keeping looks after an entry that is kept while nobody has it: from when it first is until
// the seat is given up.
type keeping struct {
	over  chan struct{} // closed when the seat is given up
	armed bool          // a watch tells when somebody else comes to the lock
	seen  int64         // Pzxid of the parent then: it changes with each who comes
	since time.Duration // monotonic time at which the entry was kept last
}

// end ends it; the seat is locked.
func (k *keeping) end() {
	if k != nil {
		close(k.over)
	}
}

// watches reports whether a watch tells when others come; the seat is locked.
func (k *keeping) watches() bool { return k != nil && k.armed }

// keepIdle keeps an entry that was just unlocked, if that can be done at once; s.mu is held.
func (s *seat) keepIdle(e *Entry, now time.Duration) bool {
	if s.like.Idle == 0 || s.q.Closing.Err() != nil {
		return false
	}
	next, err := e.next(noWait, s)
	if err != nil {
		return false
	}
	e.passedOn.Store(true)
	s.entry, s.kept = next, true
	if s.keep != nil {
		s.keep.since = now
		return true
	}
	s.keep = &keeping{over: make(chan struct{}), since: now}
	k := s.keep
	if !s.q.Tasks.Enter() {
		return true // Close is through with waiting
	}
	go func() {
		defer s.q.Tasks.Leave()
		s.lookAfter(k)
	}()
	return true
}

// noWait is a context that has ended.
var noWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// takeKept takes an entry that is kept; p.mu is held. A nil party has none.
func (p *party) takeKept() (b boarding, ok bool) {
	if p == nil {
		return boarding{}, false
	}
	for _, s := range p.seats {
		if s.kept {
			b = boarding{seat: s, e: s.entry, p: position{admitted: true}}
			s.entry, s.kept = nil, false
			return b, true
		}
	}
	return boarding{}, false
}

// lookAfter gives the kept entry back when somebody else comes to the lock, when nobody of
// this process has asked for it for long enough, and when the client closes.
func (s *seat) lookAfter(k *keeping) {
	changed := s.watchOthers(k)
	timer := time.NewTimer(s.like.Idle)
	defer timer.Stop()
	for changed != nil {
		kept, left := s.keptFor(k)
		var gone <-chan struct{}
		if kept != nil {
			var err error
			if gone, err = kept.Watch(); err != nil { // somebody has removed, broken or taken it
				s.giveBack(kept)
				continue
			}
		}
		timer.Reset(left)
		select {
		case <-changed: // or the watch was lost, or it has waited for long
			changed = s.watchOthers(k)
		case <-s.q.Closing.Done():
			changed = nil
		case <-timer.C:
			if kept, left = s.keptFor(k); kept != nil && left <= 0 {
				s.giveBack(kept)
			}
		case <-gone: // renewed, taken or gone
		case <-k.over:
			return
		}
	}
	if kept, _ := s.keptFor(k); kept != nil {
		s.giveBack(kept)
	}
}

// watchOthers arms the watch that tells when somebody comes to the lock. It returns nil if
// somebody is there already, or if that cannot be known.
func (s *seat) watchOthers(k *keeping) <-chan zk.Event {
	names, parent, changed, err := s.q.Conn.WatchChildren(s.q.Closing, s.q.Path(s.like.Lock))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && !k.armed {
		k.armed, k.seen = true, parent.Pzxid
	}
	if k.armed = true; err != nil || len(names) > 1 || parent.Pzxid != k.seen {
		s.crowded = s.crowded || s.keep == k
		return nil
	}
	return changed
}

// keptFor returns the entry that is kept, nil if somebody has it, and for how much longer it
// is to be kept, or when to look again.
func (s *seat) keptFor(k *keeping) (e *Entry, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kept || s.keep != k {
		return nil, s.like.Idle
	}
	return s.entry, k.since + s.like.Idle - s.q.Clock.Mono()
}

// giveBack has a kept entry leave, if nobody has taken it meanwhile.
func (s *seat) giveBack(e *Entry) {
	switch {
	case !s.unkeep(e):
	case e.giveUp():
		s.q.Discard(e)
	default:
		s.q.Forget(e)
	}
}

// unkeep gives up the seat of a kept entry. It reports false if somebody has it by now.
func (s *seat) unkeep(e *Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kept || s.entry != e {
		return false
	}
	s.vacate()
	return true
}

// Release gives back the entries that are kept at the named lock, and waits until they have
// left, and the parent is tidied up; or ctx ends.
func (q *Queue) Release(ctx context.Context, lock string) error {
	d := q.openDoor(lock)
	defer q.closeDoor(d)
	for {
		s, e := d.kept()
		switch {
		case s == nil:
			return nil
		case !s.unkeep(e):
			continue
		case !e.giveUp():
			q.Forget(e)
			continue
		}
		if err := q.takeLeave(ctx, e); err != nil {
			return err
		}
	}
}

// kept returns an entry that is kept at the lock, and its seat; nil if there is none.
func (d *door) kept() (*seat, *Entry) {
	d.rides.mu.Lock()
	defer d.rides.mu.Unlock()
	for p := d.rides.first; p != nil; p = p.next {
		for _, s := range p.seats {
			if s.kept {
				return s, s.entry
			}
		}
	}
	return nil, nil
}
