package main

import "sync"

// store is what the locks protect: for each of them a register that is fenced and
// a counter that is not. It is of the controller's process.
type store struct {
	clock func() instant

	mu    sync.Mutex
	rooms map[string]*room
	// What was seen to come late: after the end of the lease that the actor had
	// known of when it last looked.
	fenced    int // writes of the register with an older token than the last
	unopposed int // writes of the register, late, but no later hold had written: let through
	overdue   int // writes of the counter, refused by their deadline
	// contradicted are writes of the register that fencing refused while the
	// writer's lease still ran: two holds at once.
	contradicted int
}

// room is what one lock protects.
type room struct {
	token   int64 // of the last write of the register
	value   string
	count   int
	counted int // writes of the counter
}

func newStore(clock func() instant) *store {
	return &store{clock: clock, rooms: map[string]*room{}}
}

// enter locks the store and returns a lock's room. s.mu.Unlock leaves.
func (s *store) enter(lock string) *room {
	s.mu.Lock()
	r := s.rooms[lock]
	if r == nil {
		r = new(room)
		s.rooms[lock] = r
	}
	return r
}

func (s *store) read(lock string) (token int64, value string) {
	r := s.enter(lock)
	defer s.mu.Unlock()
	return r.token, r.value
}

// write writes the register, unless a hold with a higher token has. The lease
// plays no part: it only tells what came late.
func (s *store) write(lock string, token int64, value string, until instant) (ok bool) {
	r := s.enter(lock)
	defer s.mu.Unlock()
	late := s.clock() > until
	switch {
	case token < r.token && late:
		s.fenced++
		return false
	case token < r.token:
		s.contradicted++
		return false
	case late:
		s.unopposed++
	}
	r.token, r.value = token, value
	return true
}

func (s *store) take(lock string) (count int) {
	r := s.enter(lock)
	defer s.mu.Unlock()
	return r.count
}

// put writes the counter, whatever it stands at and whichever hold wrote it last. Only
// what comes after the end of the writer's own lease is refused: a process that
// was stopped cannot know, and that is not the lock's fault.
func (s *store) put(lock string, count int, until instant) (ok bool) {
	r := s.enter(lock)
	defer s.mu.Unlock()
	if s.clock() > until {
		s.overdue++
		return false
	}
	r.count = count
	r.counted++
	return true
}

// lostUpdates is how many writes of counters are missing in what they stand at.
func (s *store) lostUpdates() (lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rooms {
		lost += r.counted - r.count
	}
	return lost
}
