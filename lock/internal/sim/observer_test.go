// Observers, checked against what happened.

package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// witness is the observer of a client. It counts the events of each request, and the checks compare
// the counts with what happened.
type witness struct {
	sim   *sim
	owner string

	mu    sync.Mutex
	lives map[any]*events // by request
}

// events counts the events of one request.
type events struct {
	waiting, withdrawn, queued, acquired, atRisk, expired, ended int

	lock, entry string // of the last event
}

// callKey is the context key of a call of a lock.
type callKey struct{}

// newCall returns the context of a call.
func newCall(ctx context.Context) context.Context {
	return context.WithValue(ctx, callKey{}, new(int))
}

// request is the part of a call that is about one lock.
type request struct {
	call any
	lock string
}

// requestOf returns the request of the call that the context, or that of its hold, is from.
func requestOf(ctx context.Context, name string) request { return request{ctx.Value(callKey{}), name} }

func (s *sim) witness(owner string) *witness {
	w := &witness{sim: s, owner: owner, lives: map[any]*events{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.witnesses[owner] = w
	return w
}

func (w *witness) Observe(ctx context.Context, e lock.Event) {
	if e.Waited < 0 || e.Held < 0 || e.Left < 0 || e.Kind != lock.EventDisplaced && e.Policy != "default" {
		w.sim.violated("%s is told of %+v", w.owner, e)
	}
	if e.Kind == lock.EventPurged || e.Kind == lock.EventDisplaced {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	request := requestOf(ctx, e.Lock)
	if call, ok := ctx.Value(anyKey{}).(*anyCall); ok {
		call.observe(request, e)
	}
	l := w.lives[request]
	if l == nil {
		l = &events{lock: e.Lock}
		w.lives[request] = l
	}
	if l.lock != e.Lock {
		w.sim.violated("%s is told of %s, and before of %s for the same request", w.owner, e.Lock, l.lock)
	}
	if l.entry = e.Entry; e.Entry == "" && e.Kind == lock.EventWaiting {
		w.sim.count("waits without an entry")
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
		if l.ended++; errors.Is(e.Reason, lock.ErrExpired) {
			l.expired++
		}
	}
}

// warned checks that a hold that was lost by the end of its lease was reported at risk before. If
// the machine slept, it checks nothing, because the client may learn of the risk and the loss at
// once.
func (s *sim) warned(h held, err error) {
	if !errors.Is(err, lock.ErrExpired) || h.client.clock.sleptWithin(time.Since(h.since)) {
		return
	}
	time.Sleep(time.Microsecond) // until the observer has the event
	s.mu.Lock()
	w := s.witnesses[h.client.owner]
	s.mu.Unlock()
	w.mu.Lock()
	l := w.lives[requestOf(h.Context(), h.Name())]
	if l == nil {
		l = new(events)
	}
	acquired, expired, told := l.acquired > 0, l.expired > 0, l.atRisk > 0
	w.mu.Unlock()
	switch {
	case !acquired:
		s.violated("%s had %s by %s, and no observer was told", h.client.owner, h.Name(), h.EntryPath())
	case !expired: // the unlock was in doubt, and the hold had ended before it
		return
	case !told:
		s.violated("%s lost %s by %s, and was not told before that it is at risk", h.client.owner, h.Name(), h.EntryPath())
	}
	s.count("losses told before")
}

// checkLives checks, at the end of the history, that each wait and each hold has an event of its
// end. A request can have several holds: a hold whose grant must be recorded first may end before
// that.
func (s *sim) checkLives() {
	for owner, w := range s.witnesses {
		for _, l := range w.lives {
			if l.acquired != l.ended || l.waiting != l.queued+l.withdrawn {
				s.violated("%s was told of the life of a request: %+v", owner, *l)
			}
		}
	}
}
