package reaper

import (
	"sync"
	"sync/atomic"
	"time"
)

// progress is the progress of a sweep: what its walkers and its deleter wait for, and the number of
// finished nodes.
type progress struct {
	group *group // that is swept
	began time.Time
	found atomic.Int64
	done  atomic.Int64

	mu     sync.Mutex
	moved  time.Time // when a wait last ended
	flight map[*waiting]struct{}
}

// waiting is a request in flight, or another wait of a sweep.
type waiting struct {
	what  string
	since time.Time
}

func newProgress(g *group) *progress {
	now := time.Now()
	return &progress{group: g, began: now, moved: now, flight: map[*waiting]struct{}{}}
}

// begin records the start of a wait, and returns the function that ends it.
func (p *progress) begin(what string) (end func()) {
	w := &waiting{what, time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flight[w] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.flight, w)
		p.moved = time.Now()
	}
}

// status returns the progress, and when a wait last ended.
func (p *progress) status(now time.Time) (s *Progress, moved time.Time) {
	s = &Progress{Began: p.began.UTC(), Found: int(p.found.Load()), Done: int(p.done.Load())}
	p.mu.Lock()
	defer p.mu.Unlock()
	since := now
	for w := range p.flight {
		if s.WaitsFor == "" || w.since.Before(since) {
			s.WaitsFor, since = w.what, w.since
		}
	}
	s.Waits = now.Sub(since).Seconds()
	return s, p.moved
}
