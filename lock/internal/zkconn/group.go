package zkconn

import (
	"sync"
	"time"
)

// Group counts running tasks, so that a close can wait for them. While it waits, running tasks
// may still add others. Once the group was empty, no task can enter. The zero value is an empty
// group. All methods are safe for concurrent use.
type Group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // see Close; nil: it was not called
}

// Enter counts one more task. It returns false if the group is closed and was empty since.
func (g *Group) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle != nil && g.n == 0 {
		return false
	}
	g.n++
	return true
}

// Go runs f as a task in a goroutine of its own. If no task can enter, it does nothing and returns
// false.
func (g *Group) Go(f func()) bool {
	if !g.Enter() {
		return false
	}
	go func() {
		defer g.Leave()
		f()
	}()
	return true
}

// Leave counts one task less.
func (g *Group) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.idle != nil {
		close(g.idle)
	}
}

// Close returns a channel that is closed when all tasks have left.
func (g *Group) Seal() <-chan struct{} {
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
	case <-done: // even if there is no patience
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
