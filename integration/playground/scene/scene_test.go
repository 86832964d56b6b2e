package scene

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// start starts a scene. At the end of the test it closes the scene. If the test failed, it also
// shows the scene's log.
func start(t *testing.T) *Scene {
	t.Helper()
	s, err := Start()
	iferr.Fatal(t, err)
	t.Cleanup(func() {
		s.Close()
		if t.Failed() {
			for _, line := range s.log {
				t.Logf("%7.2f %-8s %-4s %s", line.Time, line.Side, line.Level, line.Text)
			}
		}
	})
	return s
}

// until waits until the condition is true, for at most five minutes.
func until(t *testing.T, s *Scene, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		s.mu.Lock()
		met := condition()
		s.mu.Unlock()
		switch {
		case met:
			return
		case time.Now().After(deadline):
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(step)
	}
}

func (s *Scene) bothReady() bool {
	_, ready := s.ready()
	return ready
}

// TestTour: in the tour, two workers are inside zk.Lock at least twice, and never inside Holdfast.
// The tour reaches its last stop.
func TestTour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		s.Tour()
		s.Tour() // does nothing, because the tour is running
		until(t, s, "the tour is over", func() bool { return s.tour.Done })
		state := s.State()
		if zk := state.Sides[zkSide]; zk.Overlaps < 2 || zk.Overlap == 0 {
			t.Errorf("zk.Lock: two inside %d times, %v s; want it twice or more", zk.Overlaps, zk.Overlap)
		}
		if hf := state.Sides[hfSide]; hf.Overlaps != 0 || hf.Overlap != 0 {
			t.Errorf("Holdfast: two inside %d times, %v s", hf.Overlaps, hf.Overlap)
		}
		if state.Tour.Stop != len(s.stops()) {
			t.Errorf("ended at %+v", state.Tour)
		}
	})
}

// TestEach: each fault has the expected result with zk.Lock: two workers are inside at once or not,
// and additions are lost or not. With Holdfast neither happens. Afterwards all workers take turns
// again.
func TestEach(t *testing.T) {
	for name, test := range map[string]struct {
		do        func(*Scene)
		two, next bool // two workers are inside zk.Lock at once; the next one of Holdfast enters soon
	}{
		"the session ends":    {(*Scene).EndSession, true, false},
		"a pause":             {(*Scene).Pause, true, true},
		"the network is cut":  {(*Scene).Cut, true, true},
		"a kill":              {(*Scene).Kill, false, true},
		"the clock forward":   {func(s *Scene) { s.StepClock(10 * time.Minute) }, false, false},
		"the clock backward":  {func(s *Scene) { s.StepClock(-10 * time.Minute) }, false, false},
		"a leader that's off": {func(s *Scene) { s.Elect(5 * time.Minute) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t)
				until(t, s, "both have a holder", s.bothReady)
				var begin mark
				s.update(func() {
					s.linger = true
					begin, _ = s.ready()
				})
				test.do(s)
				time.Sleep(2 * (TTL + Grace))
				var turns int
				s.update(func() {
					if got := s.sides[zkSide].overlaps > 0; got != test.two {
						t.Errorf("zk.Lock: two were inside: %v, want %v", got, test.two)
					}
					if zk := s.sides[zkSide]; zk.added > zk.counter != test.two {
						t.Errorf("zk.Lock: the counter is %d after %d additions, want some lost: %v", zk.counter, zk.added, test.two)
					}
					if hf := s.sides[hfSide]; hf.overlaps != 0 || hf.added != hf.counter || hf.added == 0 {
						t.Errorf("Holdfast: two were inside %d times, the counter is %d after %d additions", hf.overlaps, hf.counter, hf.added)
					}
					if got := s.next(hfSide, begin); got != test.next {
						t.Errorf("Holdfast: the next one has entered: %v, want %v", got, test.next)
					}
					s.linger = false
					turns = s.sides[hfSide].turns
				})
				until(t, s, "all take turns again", func() bool {
					return s.sides[hfSide].turns > turns+2*workers && s.bothReady()
				})
			})
		})
	}
}

// TestState: State has each worker's node with its kind and owner, one worker inside, and the
// leader with its clock.
func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		until(t, s, "both have a holder", s.bothReady)
		time.Sleep(time.Second)
		state := s.State()
		for i, want := range []string{"ephemeral", "leased"} {
			side := state.Sides[i]
			if last := len(side.Nodes) - 1; want == "leased" && last >= 0 && side.Nodes[last].Kind == "the lock's anchor" {
				side.Nodes = side.Nodes[:last]
			}
			if side.Inside != 1 || len(side.Nodes) != 1+workers {
				t.Errorf("%s: %d inside, nodes %+v", side.Name, side.Inside, side.Nodes)
				continue
			}
			for _, n := range side.Nodes[1:] {
				if !strings.HasPrefix(n.Kind, want) || !strings.HasPrefix(n.Owner, "worker ") {
					t.Errorf("%s: %+v; want a worker's that is %s", side.Name, n, want)
				}
			}
		}
		if state.Leader == "" || state.Clock != "+0 min" {
			t.Errorf("the leader is %q with a clock that is %q off", state.Leader, state.Clock)
		}
	})
}
