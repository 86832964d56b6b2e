package zkconn

import (
	"sync"
	"time"
)

// Group counts the tasks that go on, so that a close can wait for them. While it waits,
// the tasks inside may still bring in others; once the group was empty, none gets in.
// The zero value is an empty group. All methods are safe for concurrent use.
type Group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // not nil: closing
}

// Enter counts one more, unless the group is closed and was empty since.
func (g *Group) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle != nil && g.n == 0 {
		return false
	}
	g.n++
	return true
}

// Leave ends what Enter began.
func (g *Group) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.idle != nil {
		close(g.idle)
	}
}

// Close returns a channel that is closed when all have left.
func (g *Group) Close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle == nil {
		g.idle = make(chan struct{})
		if g.n == 0 {
			close(g.idle)
		}
	}
	return g.idle
}

// WaitFor reports whether the channel was closed within the time.
func WaitFor(done <-chan struct{}, patience time.Duration) bool {
	select {
	case <-done: // however short the patience
		return true
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
