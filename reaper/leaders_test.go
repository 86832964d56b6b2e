package reaper_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/reaper"
)

// offs are by how much the clock of a new leader may differ from the one's before, or a
// leader's be set.
var offs = []time.Duration{-time.Hour, -90 * time.Second, 90 * time.Second, time.Hour}

// sweepOver holds locks, leaves that of a dead client among them, has the leader's clock
// displaced, and sweeps all the time: from the very moment, and by a client of its own
// for each sweep if asked to. No holder may lose its lock, and the dead one's must go
// soon after its TTL and the grace.
func (w *world) sweepOver(displace func(), once bool) {
	w.Helper()
	policies := lock.WithPolicies(w.policies())
	service, z := w.dial("service", policies), w.raw("others")
	standing := w.reaper("standing", reaper.Options{})
	var holds []*lock.Hold
	for i := range 60 {
		h, err := service.Mutex(fmt.Sprint("live/", i)).Lock(w.ctx)
		if err != nil {
			w.Fatal(err)
		}
		holds = append(holds, h)
		time.Sleep(ttl / 180)
	}
	dead := w.dead(z, "dead")
	if !once {
		w.mustSweep(standing) // knows the clock from before
	}
	displace()
	displaced := time.Now()
	gone := time.Duration(0)
	for i := 0; time.Since(displaced) < 3*ttl; i++ {
		if once {
			c, err := lock.Dial(w.ctx, w.Servers(), policies, lock.WithDialer(w.Dialer("once")))
			if err != nil {
				w.Fatal(err)
			}
			r, err := reaper.New(c, reaper.Options{Policies: w.policies()})
			if err != nil {
				w.Fatal(err)
			}
			w.mustSweep(r)
			if err := c.Close(); err != nil {
				w.Fatal(err)
			}
		} else {
			w.mustSweep(standing)
		}
		if gone == 0 && len(w.Dump(dead)) == 0 {
			gone = time.Since(displaced)
		}
		time.Sleep(500 * time.Millisecond)
	}
	synctest.Wait()
	lost := 0
	for _, h := range holds {
		if !h.Valid() || h.Err() != nil {
			lost++
			continue
		}
		if err := h.Unlock(); err != nil {
			w.Error(err)
		}
	}
	if lost > 0 {
		w.Errorf("%d of %d holders have lost their locks", lost, len(holds))
	}
	if gone < ttl || gone > ttl+grace+ttl/3+2*time.Second {
		w.Errorf("the dead one's entry went after %v", gone)
	}
}

// TestSweepsAfterAnElection of a leader whose clock is off.
func TestSweepsAfterAnElection(t *testing.T) {
	for _, off := range offs {
		for _, once := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v once %v", off, once), func(t *testing.T) {
				simulateOf(t, locktest.Options{Members: 3}, func(w *world) {
					w.sweepOver(func() {
						for _, s := range w.Servers() {
							if s != w.Leader() {
								if err := w.SetClock(s, off); err != nil {
									w.Fatal(err)
								}
							}
						}
						w.StopLeader()
					}, once)
				})
			})
		}
	}
}

// TestSweepsAfterAStep of the clock of a leader that goes on leading. A reaper that knew
// it from before sees that.
func TestSweepsAfterAStep(t *testing.T) {
	for _, off := range offs {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			simulate(t, func(w *world) { w.sweepOver(func() { w.StepClock(off) }, false) })
		})
	}
}
