package zkconn

import (
	"sync"
	"time"
)

// Group counts running tasks, so that a Close can wait for them. A sealed group still admits tasks
// while it has any, so that running tasks can start further ones. Once a sealed group is empty, no
// task can enter. The zero value is an empty group that is not sealed. All methods are safe for
// concurrent use.
type Group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // see Seal; nil: not sealed
}

// Enter counts one more task. It returns false, and counts nothing, if the group is sealed and
// empty. After true the caller must call Leave once.
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

// Seal seals the group, and returns a channel that is closed when the group is empty. It does not
// wait. Further calls return the same channel.
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

// WaitFor waits until the channel is closed, for at most patience. It reports whether the channel is
// closed.
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
