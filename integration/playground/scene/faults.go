package scene

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// faultTime is the duration of a pause and of a partition. It is longer than a session timeout, and
// than a lease with its grace, so that both locks pass to the next worker.
const faultTime = 9 * time.Second

// EndSession ends the sessions of both holders, as ZooKeeper does after silence.
func (s *Scene) EndSession() {
	s.each("the session of %s ends while it works", func(w *worker) { s.ensemble.ExpireLabel(w.label) })
}

// Pause pauses both holders for faultTime, as a garbage collection or a suspended machine does.
func (s *Scene) Pause() {
	s.each(fmt.Sprintf("%%s is paused for %v", faultTime), func(w *worker) {
		w.paused, w.inside = true, false
		s.ensemble.Freeze(w.label)
		s.later(w, "%s goes on", func() {
			w.paused = false
			s.ensemble.Thaw(w.label)
		})
	})
}

// Cut cuts the network between both holders and ZooKeeper for faultTime.
func (s *Scene) Cut() {
	s.each(fmt.Sprintf("the network of %%s is cut for %v", faultTime), func(w *worker) {
		w.cut = true
		// Partition fails only for an unknown server, and this call names none.
		_ = s.ensemble.Partition(w.label)
		s.later(w, "the network of %s is back", func() {
			w.cut = false
			s.ensemble.Heal(w.label)
		})
	})
}

// Kill kills both holders' processes. Their next processes start after the time restart.
func (s *Scene) Kill() {
	s.each("%s is killed", func(w *worker) {
		_ = s.ensemble.Partition(w.label) // not healed: a killed process sends nothing more
		w.phase, w.hold, w.inside, w.paused, w.cut, w.p = dead, nil, false, false, false, nil
		w.kill()
	})
}

// StepClock steps the clock of ZooKeeper's leader by d.
func (s *Scene) StepClock(d time.Duration) {
	s.update(func() {
		leader := s.leader()
		if leader < 0 {
			s.say(nil, Warn, "there is no leader now")
			return
		}
		s.clocks[leader] += d
		s.ensemble.StepClock(d)
		s.say(nil, Warn, "the leader's clock is set by %s; it is %s off", signed(d), signed(s.clocks[leader]))
	})
}

// Elect makes another member the leader, with a clock that is ahead by off; negative: behind.
func (s *Scene) Elect(off time.Duration) {
	s.update(func() {
		leader := s.leader()
		if leader < 0 || s.electing {
			s.say(nil, Warn, "there is an election already")
			return
		}
		s.electing = true
		servers := s.ensemble.Servers()
		for i, name := range servers {
			if i != leader {
				s.clocks[i] = off
				must(s.ensemble.SetClock(name, off))
			}
		}
		s.say(nil, Warn, "the leader, %s, stops", memberName(leader))
		must(s.ensemble.Stop(servers[leader]))
		s.tasks.Go(func() {
			if wait.Sleep(s.ctx, 2*electionTime) != nil {
				return
			}
			s.update(func() {
				s.electing = false
				must(s.ensemble.Start(servers[leader]))
				s.say(nil, Warn, "%s leads, and its clock is %s off", memberName(s.leader()), signed(off))
			})
		})
	})
}

// must panics on an error of the ensemble, which is possible only for a server that it does not
// know.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// leader returns the index of the leader, or -1.
func (s *Scene) leader() int {
	return slices.Index(s.ensemble.Servers(), s.ensemble.Leader())
}

// signed formats the offset of a clock, in minutes.
func signed(d time.Duration) string {
	return strings.Replace(fmt.Sprintf("%+g min", d.Minutes()), "-", "−", 1)
}

func memberName(i int) string { return fmt.Sprintf("zk%d", i+1) }

// holder returns the worker that entered first among the side's workers that are inside and not cut
// off. If there is none, it returns nil.
func (side *side) holder() *worker {
	var first *worker
	for _, w := range side.workers {
		if w.phase == works && w.inside && !w.cut && (first == nil || w.entered < first.entered) {
			first = w
		}
	}
	return first
}

// each applies a fault to both holders, and logs the fault. what is a format with one verb, for the
// holder's name.
func (s *Scene) each(what string, do func(*worker)) {
	s.update(func() {
		for _, side := range s.sides {
			w := side.holder()
			if w == nil {
				s.say(side, Warn, "no worker is inside now")
				continue
			}
			s.say(side, Warn, what, w.name)
			do(w)
		}
	})
}

// later undoes a worker's fault after faultTime, and logs what with the worker's name. If the
// worker's process has ended before, later undoes only a cut.
func (s *Scene) later(w *worker, what string, undo func()) {
	life := w.life
	s.tasks.Go(func() {
		if wait.Sleep(s.ctx, faultTime) != nil {
			return
		}
		s.update(func() {
			if w.life == life && (w.phase != dead || w.cut) {
				s.say(w.side, Warn, what, w.name)
				undo()
			}
		})
	})
}
