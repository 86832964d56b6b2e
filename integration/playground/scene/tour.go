package scene

import (
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// Tour is the progress of the tour.
type Tour struct {
	Stop int    `json:"stop"` // number of the present stop, from 1; 0: the tour has not begun
	Of   int    `json:"of"`
	Say  string `json:"say"`
	Done bool   `json:"done"`
}

// Tour starts the tour, unless it is running.
func (s *Scene) Tour() {
	s.update(func() {
		if !s.touring {
			s.touring = true
			s.tasks.Go(s.goAround)
		}
	})
}

// stop is one stop of the tour: an action, and a condition to wait for.
type stop struct {
	say  string
	do   func()
	seen func(begin mark) bool // called with the scene locked
	look time.Duration         // how long the stop lasts after seen is true
}

// mark has counts of each side at the time when a stop began.
type mark struct{ entered, overlaps [2]int }

const (
	zkSide = iota
	hfSide
)

func (s *Scene) stops() []stop {
	return []stop{
		{
			say:  "The sessions of both holders end while they work. The node of zk.Lock goes with its session and the next worker enters: both write the counter, and additions are lost. The node of Holdfast does not belong to the session: nothing happens.",
			do:   s.EndSession,
			seen: func(begin mark) bool { return s.sides[zkSide].overlaps > begin.overlaps[zkSide] },
			look: 5 * time.Second,
		},
		{
			say: "Both holders are paused for longer than a session or a lease lasts, and go on. With both locks the next worker enters meanwhile. The holder of zk.Lock then works on; that of Holdfast asks its hold, which has ended, and stops.",
			do:  s.Pause,
			seen: func(begin mark) bool {
				return s.sides[zkSide].overlaps > begin.overlaps[zkSide] && s.next(hfSide, begin) && !s.sides[hfSide].disturbed()
			},
			look: 4 * time.Second,
		},
		{
			say: "Another server leads, whose clock is five minutes slow. zk.Lock asks no clock. Holdfast counts its leases anew, and never compares stamps of two leaders.",
			do:  func() { s.Elect(-5 * time.Minute) },
			seen: func(mark) bool {
				return !s.electing && s.sides[zkSide].holder() != nil && s.sides[hfSide].holder() != nil
			},
			look: 8 * time.Second,
		},
		{
			say:  "The leader's clock is set ten minutes forward. By that clock all leases ended long ago. Holdfast's clients see the step, and none enters.",
			do:   func() { s.StepClock(10 * time.Minute) },
			seen: func(mark) bool { return true },
			look: 8 * time.Second,
		},
		{
			say:  "Both holders are killed. The next worker enters when the session is over (zk.Lock), or the lease and the grace (Holdfast). That is the price: it takes longer.",
			do:   s.Kill,
			seen: func(begin mark) bool { return s.next(zkSide, begin) && s.next(hfSide, begin) },
			look: 4 * time.Second,
		},
	}
}

func (s *Scene) goAround() {
	defer s.update(func() { s.touring, s.linger = false, false })
	stops := s.stops()
	for i, stop := range stops {
		s.update(func() { s.linger = false })
		var begin mark
		if s.await(s.ctx, func() (ready bool) { begin, ready = s.ready(); return ready }) != nil {
			return
		}
		s.update(func() {
			s.linger = true
			s.tour = Tour{Stop: i + 1, Of: len(stops), Say: stop.say}
		})
		stop.do()
		if s.await(s.ctx, func() bool { return stop.seen(begin) }) != nil || wait.Sleep(s.ctx, stop.look) != nil {
			return
		}
	}
	s.update(func() {
		s.tour.Done = true
		s.tour.Say = "That was the tour: the same happened to both locks. Now try the buttons."
	})
}

// ready reports whether the next stop can begin: each side has one holder that still has half of
// its work to do, no worker is paused or cut off, and no two are inside at once. If it can, begin
// has the present counts.
func (s *Scene) ready() (begin mark, ready bool) {
	for i, side := range s.sides {
		w := side.holder()
		if w == nil || w.done > workSteps/2 || side.disturbed() || !side.since.IsZero() {
			return mark{}, false
		}
		begin.entered[i], begin.overlaps[i] = w.entered, side.overlaps
	}
	return begin, true
}

// disturbed reports whether a worker of the side is paused or cut off.
func (side *side) disturbed() bool {
	return slices.ContainsFunc(side.workers, func(w *worker) bool { return w.paused || w.cut })
}

// next reports whether a worker has entered the side's lock since the stop began, and is inside.
func (s *Scene) next(side int, begin mark) bool {
	w := s.sides[side].holder()
	return w != nil && w.entered > begin.entered[side]
}
