package lease

import (
	"context"
	"slices"
	"time"
)

// AddHandle adds a handle on a hold. It returns false if the entry is not held, or is pinned, in
// doubt or at risk, or if Extend has changed its lease. Unlike Reenter it does not wait.
func (e *Entry) AddHandle() bool {
	now := e.keeper.Clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != Held || e.pinned || e.atRisk || e.nextTTL != e.TTL || e.timeLeft(now) <= 0 {
		return false
	}
	e.handles++
	return true
}

// OnEnd registers cancel under a key that the caller chooses. When the entry ends, or at once if it
// has ended, cancel is called with the reason while the entry is locked. A nil cancel unregisters
// the key.
func (e *Entry) OnEnd(key any, cancel context.CancelCauseFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case cancel == nil:
		if e.rare != nil {
			e.rare.onEnd = slices.DeleteFunc(e.rare.onEnd, func(each ending) bool { return each.key == key })
		}
	case e.state == Ended:
		cancel(e.why)
	default:
		e.with().onEnd = append(e.with().onEnd, ending{key, cancel})
	}
}

// ShareGroup returns the keys given to [Entry.OnEnd]: those of the holds in the share group.
func (e *Entry) ShareGroup() (keys []any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, each := range e.shareGroup() {
		keys = append(keys, each.key)
	}
	return keys
}

// Holds returns the number of holds of the entry: more than one only in a share group; 0 if it is
// not granted, or has ended.
func (e *Entry) Holds() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != Held {
		return 0
	}
	return max(1, len(e.shareGroup()))
}

// ending is a function to call when an entry ends, and its key.
type ending struct {
	key    any
	cancel context.CancelCauseFunc
}

// rarities are fields that few entries need. A client may have very many entries.
type rarities struct {
	onEnd []ending // one for each hold of the share group
	// warned has the channels of the handles that asked for warnings, each with a buffer of one.
	warned map[any]chan time.Duration
}

// with returns the rarities, and makes them if there are none; e.mu is held.
func (e *Entry) with() *rarities {
	if e.rare == nil {
		e.rare = new(rarities)
	}
	return e.rare
}

// shareGroup returns the share group; e.mu is held.
func (e *Entry) shareGroup() []ending {
	if e.rare == nil {
		return nil
	}
	return e.rare.onEnd
}
