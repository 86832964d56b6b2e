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
	last  atomic.Int64 // time of the last answer, in ns since began

	mu     sync.Mutex
	flight map[*waiting]struct{}
}

// waiting is a request in flight, or another wait of a sweep.
type waiting struct {
	what  string
	path  string
	since time.Time
}

func newProgress(g *group) *progress {
	return &progress{group: g, began: time.Now(), flight: map[*waiting]struct{}{}}
}

// begin records the start of a wait, and returns the function that ends it.
func (p *progress) begin(what, path string) (end func()) {
	w := &waiting{what, path, time.Now()}
	p.mu.Lock()
	p.flight[w] = struct{}{}
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		delete(p.flight, w)
		p.mu.Unlock()
		p.last.Store(int64(time.Since(p.began)))
	}
}

// moved returns the time at which a wait last ended.
func (p *progress) moved() time.Time { return p.began.Add(time.Duration(p.last.Load())) }

func (p *progress) status(now time.Time) *Progress {
	s := &Progress{Began: p.began.UTC(), Found: int(p.found.Load()), Done: int(p.done.Load())}
	p.mu.Lock()
	defer p.mu.Unlock()
	var longest *waiting
	for w := range p.flight {
		if longest == nil || w.since.Before(longest.since) {
			longest = w
		}
	}
	if longest != nil {
		s.WaitsFor = longest.what
		if longest.path != "" {
			s.WaitsFor += " " + longest.path
		}
		s.Waits = now.Sub(longest.since).Seconds()
	}
	return s
}
