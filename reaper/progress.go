package reaper

import (
	"sync"
	"sync/atomic"
	"time"
)

// progress is how far a sweep is: what its walkers and its deleter wait for, and how
// many nodes they have done.
type progress struct {
	group *group // that is swept
	began time.Time
	found atomic.Int64
	done  atomic.Int64
	last  atomic.Int64 // time of the last answer, in ns since began

	mu     sync.Mutex
	flight map[*waiting]struct{}
}

// waiting is one request, or another thing that a sweep waits for.
type waiting struct {
	what  string
	path  string
	since time.Time
}

func newProgress(g *group) *progress {
	return &progress{group: g, began: time.Now(), flight: map[*waiting]struct{}{}}
}

// begin notes that something is waited for, and returns what to call when it is no more.
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

// moved is when something was last over that was waited for.
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
