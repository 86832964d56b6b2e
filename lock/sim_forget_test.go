package lock_test

import (
	"math/rand/v2"
	"time"
)

// forget has the servers lose all data once. Exclusion begins anew: what was held before is void,
// and ends for its holder within a lease.
func (s *sim) forget(r *rand.Rand) {
	s.pause(r, s.lasts/4, s.lasts/2)
	s.mu.Lock()
	s.sayLocked("fault: the servers lose their data")
	s.tally.count("data lost", 1)
	s.forgotten = time.Now()
	clear(s.open)
	clear(s.last)
	clear(s.wrote)
	clear(s.theirs)
	clear(s.txns)
	clear(s.reigns)
	for _, a := range s.askings {
		a.held = nil
	}
	s.mu.Unlock()
	s.Forget()
	z := s.connect("others again") // go-zookeeper's own does not come back
	defer z.Close()
	for s.until.Err() == nil {
		if _, err := z.Create(ledger, nil, 0, open); err == nil {
			return
		}
		s.pause(r, time.Millisecond, time.Second)
	}
}

// void reports whether a hold is of data that the servers have lost; s.mu is held.
func (s *sim) void(h held) bool { return h.void || h.since.Before(s.forgotten) }

// maybeVoid reports whether a hold that begins now can be of such data: its client need not know of
// the loss until the lease ends.
func (s *sim) maybeVoid() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.forgotten.IsZero() && time.Since(s.forgotten) <= 2*s.ttl+s.slack()
}
