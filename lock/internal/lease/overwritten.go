package lease

import (
	"fmt"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// OverwrittenBy returns why an entry ends if another client's data stands in its node:
// ErrAttached, ErrBroken with the breaking client and its reason, or else ErrTaken. It is the
// one place that decides so. An entry that was handed on, put back, and attached to again has
// the same incarnation, but another mark. A client that breaks that entry has not broken this
// one, and that entry is not ours to delete.
func (t *Terms) OverwrittenBy(data []byte) error {
	r, err := znode.DecodeRecord(data)
	switch {
	case err != nil:
		return ErrTaken
	case r.Incarnation != t.Incarnation || r.Attachment != t.Attachment:
		return ErrAttached
	case r.Broken != nil && r.Detached == t.Detached:
		return fmt.Errorf("%w %s", ErrBroken, r.Broken)
	case r.Detached: // another client has attached to it, and has put it back
		return ErrAttached
	}
	return ErrTaken
}

// writtenBy takes the news that another client's data stands in the node; nil if the data is
// not known.
func (e *Entry) writtenBy(data []byte) {
	why := e.OverwrittenBy(data)
	e.change(func() {
		e.spoil()
		if e.state < Held {
			why = fmt.Errorf("%w: %w", ErrGone, why)
		}
		e.transition(Ended, why)
	})
}
