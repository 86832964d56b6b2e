package status

import (
	"context"
	"sync"
	"time"
)

// Limits of the reads of locks for all viewers together. A new pass begins at least minAge after the
// last one ended, and reading takes at most one part in rest of the time. Data older than maxAge is
// not shown if the viewer can wait for a pass.
const (
	minAge  = time.Second
	rest    = 10
	maxAge  = 15 * time.Second
	maxPass = time.Minute
	// maxWait is the longest wait of a viewer for a pass. After that it gets the data that was
	// read so far.
	maxWait = 100 * time.Millisecond
)

// listing has the locks below a root, read on request.
type listing struct {
	ctx    context.Context // ends all passes
	passes *sync.WaitGroup

	mu      sync.Mutex
	last    *reading // the last complete pass
	current *reading // the current pass
	ended   *reading // the last pass, complete or not
}

// look returns the last complete pass, or the current one if that is old; nil if there is none. If
// a pass is due, it begins next. The error is that of the last pass, if it was incomplete.
func (l *listing) look(ctx context.Context, next *reading) (*reading, error) {
	last, current, err := l.begin(next)
	fresh := last != nil && time.Since(last.ended) < max(maxAge, 2*rest*last.took())
	if current == nil || fresh {
		return last, err
	}
	wait, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case <-current.done:
		if current.err == nil {
			return current, nil
		}
		err = current.err
	case <-wait.Done():
	}
	if last != nil { // old data of all locks is better than new data of some
		return last, err
	}
	return current, err
}

// begin begins a pass if one is due.
func (l *listing) begin(next *reading) (last, current *reading, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.ended == nil || time.Since(l.ended.ended) >= max(minAge, rest*l.ended.took())
	if l.current == nil && due && l.ctx.Err() == nil {
		l.current = next
		l.passes.Go(func() { l.pass(next) })
	}
	if l.ended != nil {
		err = l.ended.err
	}
	return l.last, l.current, err
}

// pass reads the locks, and records the result.
func (l *listing) pass(r *reading) {
	ctx, cancel := context.WithTimeout(l.ctx, maxPass)
	defer cancel()
	r.run(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.ended = nil, r
	if r.err == nil {
		l.last = r
	}
}

// took returns the duration of a pass that has ended.
func (r *reading) took() time.Duration { return r.ended.Sub(r.begun) }
