package zkconn

import (
	"sync"
	"time"
)

// Tasks counts running tasks, so that a Close can wait for them. Once it is sealed, it still admits
// tasks while it has any, so that running tasks can start further ones. Once it is sealed and empty,
// no task can enter. The zero value is empty and not sealed. All methods are safe for concurrent use.
type Tasks struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // see Seal; nil: not sealed
}

// Enter counts one more task. It returns false, and counts nothing, if the tasks are sealed and
// none runs. After true the caller must call Leave once.
func (t *Tasks) Enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle != nil && t.n == 0 {
		return false
	}
	t.n++
	return true
}

// Go runs f as a task in a goroutine of its own. If no task can enter, it does nothing and returns
// false.
func (t *Tasks) Go(f func()) bool {
	if !t.Enter() {
		return false
	}
	go func() {
		defer t.Leave()
		f()
	}()
	return true
}

// Leave counts one task less.
func (t *Tasks) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.idle != nil {
		close(t.idle)
	}
}

// Seal seals the tasks, and returns a channel that is closed when none runs. It does not wait. Further calls
// return the same channel.
func (t *Tasks) Seal() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil {
		t.idle = make(chan struct{})
		if t.n == 0 {
			close(t.idle)
		}
	}
	return t.idle
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
