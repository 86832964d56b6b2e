// The reaper.

package sim

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

func (s *sim) reaper(c *client) *reaper.Reaper {
	set, err := policy.NewSet(policy.Rule{
		Match: policy.MustPattern("**"), OrphanAfter: time.Second,
		Policy: lock.Policy{Name: "all", TTL: s.ttl, Grace: s.grace},
	})
	iferr.Fatal(s, err)
	r, err := reaper.New(c.Client, reaper.Options{Policies: set})
	iferr.Fatal(s, err)
	return r
}

// reap runs the sweeps of a reaper, or of a new reaper for each sweep.
func (s *sim) reap(steps []step) {
	warm := sync.OnceFunc(s.warm.Done)
	defer warm()
	clock := s.clock("reaper")
	c := s.client("reaper", "reaper", clock)
	sweeps := s.reaper(c)
	for i, one := range steps {
		if !s.await(one) {
			break
		}
		if one.has("fresh") {
			s.closeClient(c)
			c = s.client(fmt.Sprintf("reaper%d", i), "reaper", clock)
			sweeps = s.reaper(c)
			s.count("sweeps by a reaper of its own")
		}
		s.sweep(sweeps)
		warm()
	}
	s.closeClient(c)
}

func (s *sim) sweep(sweeps *reaper.Reaper) {
	report, err := sweeps.Sweep(s.until)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.count("entries and parents swept", report.Total.Deleted)
	if report.Total.Deleted > 0 || err != nil {
		s.sayLocked("sweep: %+v, %v", report.Total, err)
	}
	if s.kind == stepped && report.Total.Expired > 0 {
		s.violatedLocked("the reaper took living entries for expired: %+v", report.Total)
	}
}

// sweepUp waits until the entries of crashed clients have expired, and sweeps. A reaper that has
// not seen the beginning of the present leader's epoch counts from its own first read, so after an
// election a second sweep is necessary.
func (s *sim) sweepUp() {
	c := s.client("sweeper", "sweeper", s.clock("sweeper"))
	sweeps := s.reaper(c)
	for range min(s.members, 2) {
		time.Sleep(2*s.ttl + s.grace + time.Minute)
		report, err := sweeps.Sweep(s.Context())
		if err != nil {
			s.violated("the last sweep: %v", err)
		}
		s.mu.Lock()
		s.tally.count("entries and parents swept", report.Total.Deleted)
		s.mu.Unlock()
	}
	s.closeClient(c)
}
