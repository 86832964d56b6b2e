// Faults of clocks.

package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// sleepTogether makes all machines except the servers sleep, with their timers stopped. When they
// wake, all clocks have advanced, but no timer has.
func (s *sim) sleepTogether(d time.Duration) error {
	s.mu.Lock()
	clocks := slices.Clone(s.clocks)
	s.slept += d
	s.tally.count("sleeps of all", 1)
	s.mu.Unlock()
	s.auditor.Sleep(d)
	for _, c := range clocks {
		c.skip(d)
	}
	for _, member := range s.Servers() {
		s.mu.Lock()
		ahead := s.ahead[member] + s.slept
		s.mu.Unlock()
		if err := s.SetClock(member, ahead); err != nil {
			return err
		}
	}
	return nil
}

// setClock sets how far a member's clock is ahead, apart from the sleeps of all machines.
func (s *sim) setClock(member string, d time.Duration) error {
	s.mu.Lock()
	s.ahead[member] = d
	s.sayLocked("fault: the clock of %s is %v off", member, d)
	s.tally.count("clocks set", 1)
	d += s.slept
	s.mu.Unlock()
	return s.SetClock(member, d)
}

// spreadClocks sets the members' clocks apart, by up to an hour each, before the first client
// connects.
func (s *sim) spreadClocks(r *rand.Rand) {
	for _, member := range s.Servers() {
		iferr.Error(s, s.setClock(member, between(r, -time.Hour, time.Hour)))
	}
}

// displace sets a server's clock. In histories with elections the leader's clock is left as it is. If
// the clocks slew, displace does nothing.
func (s *sim) displace(one step) error {
	member := s.member(one.number("member"))
	if s.slews || s.kind == elections && s.Leader() == member {
		return nil
	}
	return s.setClock(member, one.time("by"))
}

// slew makes the servers' clocks run at a wrong rate, as during a correction. The error between a
// record's last write and its expiry stays below half the grace.
func (s *sim) slew() {
	r := s.random("slew")
	slope := float64(s.grace*2/5) / float64(5*s.ttl+s.grace)
	if oneIn(r, 2) {
		slope = -slope
	}
	for last := time.Now(); s.pause(r, 100*time.Millisecond, time.Second); last = time.Now() {
		d := time.Duration(slope * float64(time.Since(last)))
		for _, member := range s.Servers() {
			s.mu.Lock()
			s.ahead[member] += d
			ahead := s.ahead[member] + s.slept
			s.mu.Unlock()
			iferr.Error(s, s.SetClock(member, ahead))
		}
		s.count("slews")
	}
}

// step steps the leader's clock by more than the grace, after all clients have sampled it.
func (s *sim) step(one step) error {
	s.warm.Wait()
	s.count("steps")
	return s.setClock(s.Leader(), one.time("by"))
}
