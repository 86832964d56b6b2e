package status

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the passes over the locks, for all viewers together. A pass begins at least minAge, and
// at least rest times the duration of the previous pass, after that pass ended. After a loss of the
// session only minAge counts: what was read before it may be out of date. If the last complete pass is
// older than maxAge, a viewer waits for the current one.
const (
	minAge  = time.Second
	rest    = 10
	maxAge  = 15 * time.Second
	maxPass = time.Minute
	// maxWait is the longest wait of a viewer for a pass. Then the viewer gets older data, or the
	// locks that were read so far.
	maxWait = 100 * time.Millisecond
)

// errNoSession is the error while there is no session. A pass that has begun goes on when it is back.
var errNoSession = errors.New("there is no session with ZooKeeper; the locks are read again as soon as there is one")

// listing has the locks below a root, read on request.
type listing struct {
	ctx    context.Context // ends all passes
	passes *sync.WaitGroup
	own    string      // name of the lock of the active reaper
	seen   atomic.Bool // a pass has found another lock than that

	mu      sync.Mutex
	last    *reading // the last complete pass
	current *reading // the current pass
	ended   *reading // the last pass, complete or not
}

// look returns the last complete pass. If this pass is old or missing, look waits up to maxWait for
// the current pass, and returns the current pass if it is complete, or if no pass has been complete.
// look returns nil if there is no pass. If a pass is due, next begins. The error is that of the last
// pass that ended, nil if it was complete.
func (l *listing) look(ctx context.Context, next *reading) (*reading, error) {
	last, current, err := l.begin(next)
	fresh := last != nil && !last.outdated() && time.Since(last.ended) < max(maxAge, 2*rest*last.took())
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

// begin begins the pass next if a pass is due and there is a session. It returns the last complete
// pass, the current pass, and the error of the last pass that ended, or errNoSession.
func (l *listing) begin(next *reading) (last, current *reading, err error) {
	session := next.tree.Session()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		err = l.ended.err
	}
	switch {
	case !session.Connected:
		err = errNoSession
	case l.current != nil || l.ctx.Err() != nil:
	case l.ended == nil || l.ended.restedFor(time.Since(l.ended.ended)):
		next.session = session.Changed
		l.current = next
		l.passes.Go(func() { l.pass(next) })
	}
	return l.last, l.current, err
}

// restedFor reports whether the next pass may begin so long after the end of this one.
func (r *reading) restedFor(pause time.Duration) bool {
	if r.outdated() {
		return pause >= minAge
	}
	return pause >= max(minAge, rest*r.took())
}

// outdated reports whether the session may have been lost since the pass began.
func (r *reading) outdated() bool {
	select {
	case <-r.session: // nil for a client made by lock.New
		return true
	default:
		return false
	}
}

// pass reads the locks, for at most maxPass, and records the result.
func (l *listing) pass(r *reading) {
	ctx, cancel := context.WithTimeout(l.ctx, maxPass)
	defer cancel()
	r.run(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(r.locks, func(lock *Lock) bool { return lock.Name != l.own }) {
		l.seen.Store(true)
	}
	l.current, l.ended = nil, r
	if r.err == nil {
		l.last = r
	}
}

// took returns the duration of a pass that has ended.
func (r *reading) took() time.Duration { return r.ended.Sub(r.begun) }
