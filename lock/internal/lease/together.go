package lease

import (
	"context"
	"slices"
	"time"
)

// Join gives out one more handle on a hold that several share, unless the hold is in doubt
// or at risk, or its lease is another one than that of its terms.
func (e *Entry) Join() bool {
	now := e.keeper.clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != Held || e.pinned || e.atRisk || e.nextTTL != e.TTL || e.left(now) <= 0 {
		return false
	}
	e.handles++
	return true
}

// OnEnd has cancel called when the entry ends, with why, or at once if it has; nil: not any
// more. It is called with the entry locked. The key is its owner's.
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

// Together returns the keys of the hold's share group, see [Entry.OnEnd].
func (e *Entry) Together() (keys []any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, each := range e.together() {
		keys = append(keys, each.key)
	}
	return keys
}

// Holds is how many holds the entry carries: more than one only in a share group; 0: it is
// not granted, or has ended.
func (e *Entry) Holds() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != Held {
		return 0
	}
	return max(1, len(e.together()))
}

// ending is what is called when an entry ends, and the key of its owner.
type ending struct {
	key    any
	cancel context.CancelCauseFunc
}

// rarities are what few entries have. A client may have very many entries.
type rarities struct {
	onEnd []ending // of the share group
	// warned is where the handles that asked for it are told that the hold is at risk, each
	// on a channel with room for one.
	warned map[any]chan time.Duration
}

// with returns what of the entry is rare, to be changed; e.mu is held.
func (e *Entry) with() *rarities {
	if e.rare == nil {
		e.rare = new(rarities)
	}
	return e.rare
}

// together is the share group: all that have the hold together; e.mu is held.
func (e *Entry) together() []ending {
	if e.rare == nil {
		return nil
	}
	return e.rare.onEnd
}
