package lease

import (
	"fmt"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// OverwrittenBy is the one place that says what it means to an entry that data, which
// somebody else wrote, stands in its node: ErrAttached, ErrBroken with who has broken it,
// and why, or else ErrTaken. An entry that was handed on, put back, and attached to again has
// the same incarnation, but another mark; whoever breaks that one has not broken this one,
// and it is not ours to delete.
func (t *Terms) OverwrittenBy(data []byte) error {
	r, err := znode.DecodeRecord(data)
	switch {
	case err != nil:
		return ErrTaken
	case r.Incarnation != t.Incarnation || r.Attachment != t.Attachment:
		return ErrAttached
	case r.Broken != nil && r.Detached == t.Detached:
		return fmt.Errorf("%w %s", ErrBroken, r.Broken)
	case r.Detached: // somebody has attached to it, and has put it back
		return ErrAttached
	}
	return ErrTaken
}

// writtenBy takes the news that data stands in the node, which somebody else wrote; nil if
// that is not known.
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
