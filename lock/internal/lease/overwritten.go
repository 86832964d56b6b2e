package lease

import (
	"fmt"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// OverwrittenBy returns why an entry with these terms ends if its node has data that this client
// did not write:
//
//   - ErrAttached: another client has attached to the entry;
//   - ErrBroken, with the client that force-released the hold and its reason;
//   - otherwise ErrTaken.
//
// An entry that was detached, put back, and attached to again has the same incarnation, but another
// Attachment. Then another client owns the entry and must delete it. So a force-release of that
// entry is ErrAttached for this client.
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

// overwritten ends the entry because its node has data that this client did not write; why is the
// reason of OverwrittenBy.
func (e *Entry) overwritten(why error) {
	e.change(func() {
		e.spoil()
		if e.state < Held {
			why = fmt.Errorf("%w: %w", ErrGone, why)
		}
		e.transition(Ended, why)
	})
}
