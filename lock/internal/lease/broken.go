package lease

import (
	"fmt"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// writtenBy takes the news of what somebody else wrote into the node, if that is known.
func (e *Entry) writtenBy(data []byte) {
	why := BrokenBy(data)
	if why == nil {
		e.overwritten()
		return
	}
	e.change(func() {
		e.spoil()
		if e.state < Held {
			why = fmt.Errorf("%w: %w", ErrGone, why)
		}
		e.transition(Ended, why)
	})
}

// BrokenBy returns the ErrBroken that data tells of if it is the record of a hold that
// somebody has broken, or nil.
func BrokenBy(data []byte) error {
	if r, err := znode.DecodeRecord(data); err == nil && r.Broken != nil {
		return fmt.Errorf("%w %s", ErrBroken, r.Broken)
	}
	return nil
}

// HandedOn reports whether data is the record of a later incarnation of an entry; or of one
// that somebody has attached to, which nobody has detached, and has put back.
func HandedOn(data []byte, incarnation int32) bool {
	r, err := znode.DecodeRecord(data)
	return err == nil && (r.Incarnation > incarnation || r.Incarnation == incarnation && r.Detached)
}
