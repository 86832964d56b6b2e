package lock_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// witness observes a client, and is checked against what befell it.
type witness struct {
	sim   *sim
	owner string

	mu    sync.Mutex
	lives map[string]*life // by entry
}

// life is how often which event was told of an entry.
type life struct{ waiting, withdrawn, queued, acquired, atRisk, expired, ended int }

func (s *sim) witness(owner string) *witness {
	w := &witness{sim: s, owner: owner, lives: map[string]*life{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.witnesses[owner] = w
	return w
}

func (w *witness) Observe(_ context.Context, e lock.Event) {
	if e.Waited < 0 || e.Held < 0 || e.Left < 0 || e.Kind != lock.EventDisplaced && e.Policy != "default" {
		w.sim.violated("%s is told of %+v", w.owner, e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lives[e.Entry]
	if l == nil {
		l = new(life)
		w.lives[e.Entry] = l
	}
	switch e.Kind {
	case lock.EventWaiting:
		l.waiting++
	case lock.EventAcquired:
		if l.acquired++; e.Queued {
			l.queued++
		}
	case lock.EventWithdrawn:
		l.withdrawn++
	case lock.EventAtRisk:
		l.atRisk++
		w.sim.count("holds at risk")
	case lock.EventReleased, lock.EventLost:
		if l.ended++; errors.Is(e.Err, lock.ErrExpired) {
			l.expired++
		}
	}
}

// warned checks that a hold which its lease's end took was at risk before. One whose
// machine slept can find both out at once.
func (s *sim) warned(h held, err error) {
	if !errors.Is(err, lock.ErrExpired) || h.fixed || h.client.clock.sleptWithin(time.Since(h.since)) {
		return
	}
	s.mu.Lock()
	w := s.witnesses[h.client.owner]
	s.mu.Unlock()
	w.mu.Lock()
	l := w.lives[h.EntryPath()]
	expired, told := l.expired > 0, l.atRisk > 0
	w.mu.Unlock()
	switch {
	case !expired: // it was unlocked in doubt, and turned out to have been over
		return
	case !told:
		s.violated("%s lost %s by %s, and was not told before that it is at risk", h.client.owner, h.Name(), h.EntryPath())
	}
	s.count("losses told before")
}

// checkLives checks, when everybody is gone, that whatever was told to have begun was
// told to have ended.
func (s *sim) checkLives() {
	for owner, w := range s.witnesses {
		for entry, l := range w.lives {
			if l.acquired > 1 || l.waiting > 1 || l.acquired != l.ended || l.waiting != l.queued+l.withdrawn {
				s.violated("%s was told of the life of %s: %+v", owner, entry, *l)
			}
		}
	}
}
