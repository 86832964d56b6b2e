package status

import (
	"context"
	"sync"
	"time"
)

// How often locks are read for viewers, however many of these there are: a new pass
// begins no sooner than minAge after the last one ended, and reading takes a tenth of the
// time at most. What is older than maxAge is not shown where a pass can be waited for.
const (
	minAge  = time.Second
	rest    = 10
	maxAge  = 15 * time.Second
	maxPass = time.Minute
	// maxWait is for how long a viewer waits for a pass; then it has what was read so far.
	maxWait = 100 * time.Millisecond
)

// listing has the locks below a root, read on request.
type listing struct {
	ctx    context.Context // ends all passes
	passes *sync.WaitGroup

	mu      sync.Mutex
	last    *reading // the last one that read all there is
	current *reading // the one that is going on
	ended   *reading // the last one, whether it read all or not
}

// look returns the last pass over the locks, unless it is old, or the one that is going
// on; nil if there is none. Start makes one. The error is that of the last one, if it could not read all.
func (l *listing) look(ctx context.Context, start func() *reading) (*reading, error) {
	last, current, err := l.begin(start)
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
	if last != nil { // better old than in parts
		return last, err
	}
	return current, err
}

// begin begins a pass if it is time for one.
func (l *listing) begin(start func() *reading) (last, current *reading, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.ended == nil || time.Since(l.ended.ended) >= max(minAge, rest*l.ended.took())
	if l.current == nil && due && l.ctx.Err() == nil {
		r := start()
		l.current = r
		l.passes.Go(func() { l.pass(r) })
	}
	if l.ended != nil {
		err = l.ended.err
	}
	return l.last, l.current, err
}

// pass reads the locks.
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

// took is for how long a pass went on that has ended.
func (r *reading) took() time.Duration { return r.ended.Sub(r.begun) }
