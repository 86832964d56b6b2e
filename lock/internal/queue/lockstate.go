package queue

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// lockState is what this process knows of one lock: what it believes of the parent, two
// facts for the next release, and the places of its goroutines. It is there while it is in
// use, and for a second after the last entry has left.
type lockState struct {
	name string

	mu       sync.Mutex
	parent   parent
	lastLeft time.Duration // monotonic time at which an entry of ours left last; 0: never
	others   bool          // other contenders were seen
	places   places
	soleHold *Entry // held by one goroutine that no other waits for: its place is not remembered

	users    int // guarded by the queue
	watchers int // of these, those that only watch; guarded by the queue too
}

// open returns the state of a lock, to be given back with close. A parent that is kept is
// probably there, and is read first.
func (q *Queue) open(lock string, keepParent bool) *lockState {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.locks[lock]
	if s == nil {
		s = &lockState{name: lock}
		if keepParent {
			s.parent.state = unknown
		}
		q.locks[lock] = s
	}
	s.users++
	return s
}

// close gives a lock's state back. A state that is not in use is forgotten.
func (q *Queue) close(s *lockState) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(q.locks, s.name)
	}
}

// ServersReset is called when the servers may have lost their data: nothing that was seen of
// parents is believed any more.
func (q *Queue) ServersReset() {
	q.mu.Lock()
	states := slices.Collect(maps.Values(q.locks))
	q.mu.Unlock()
	for _, s := range states {
		s.believe(parent{state: unknown})
	}
}

// believed is what is believed of the parent.
func (s *lockState) believed() parent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parent
}

// believe notes what a reply has shown of the parent.
func (s *lockState) believe(p parent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parent = p
}

// recall notes what the join of an entry that stands below it has shown of the parent, if
// that was forgotten while the entry was held.
func (s *lockState) recall(p parent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parent.state == absent || s.parent.state == unknown {
		s.parent = p
	}
}

// sawOthers notes whether other contenders are at the lock.
func (s *lockState) sawOthers(others bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = others
}

// left notes that an entry of ours has left.
func (s *lockState) left(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastLeft = now
}

// stays reports whether the parent stays when an entry leaves: the lock is used again and
// again, or others are there.
func (s *lockState) stays(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others || s.lastLeft != 0 && now-s.lastLeft < usedAgain
}

// barged reports whether goroutines wait for the lock to be free, without a place in its queue:
// no watch tells of them. s.mu is held.
func (s *lockState) barged() bool {
	return slices.ContainsFunc(s.places.all(), func(p *placed) bool { return p.like.Barging && p.Waiting() > 0 })
}

// places are those of one lock. Nearly all locks have one, of which a client may have very many.
type places struct {
	one  *placed
	more map[likeness]*placed // beside that; nil: none
}

// find returns the place of the requests that are alike, nil if there is none.
func (s *places) find(l likeness) *placed {
	if s.one != nil && s.one.like.likeness() == l {
		return s.one
	}
	return s.more[l]
}

func (s *places) add(p *placed) {
	switch {
	case s.one == nil:
		s.one = p
		return
	case s.more == nil:
		s.more = map[likeness]*placed{}
	}
	s.more[p.like.likeness()] = p
}

// remove reports whether the place was there.
func (s *places) remove(p *placed) bool {
	if s.one == p {
		s.one = nil
		return true
	}
	l := p.like.likeness()
	if s.more[l] != p {
		return false
	}
	delete(s.more, l)
	return true
}

// all returns all places.
func (s *places) all() []*placed {
	all := slices.Collect(maps.Values(s.more))
	if s.one != nil {
		all = append(all, s.one)
	}
	return all
}
