package lease

import (
	"fmt"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// OverwrittenBy returns why an entry ends if its node has another client's data: ErrAttached;
// ErrBroken with the breaking client and its reason; otherwise ErrTaken. Only this function
// decides that. An entry that was detached, put back, and attached to again has the same
// incarnation, but another Attachment: then another client owns the entry and must delete it. A
// force-release of such an entry does not concern this client.
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

// writtenBy ends the entry because its node has another client's data. data is nil if that is
// unknown.
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
