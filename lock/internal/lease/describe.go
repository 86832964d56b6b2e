package lease

import (
	"context"
	"maps"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// Describe puts a copy of the metadata into the record from now on, and waits until a write that has it is
// acknowledged. It fails as Refresh does; then the next renewal writes the metadata.
func (e *Entry) Describe(ctx context.Context, metadata map[string]string) error {
	e.mu.Lock()
	if e.state != Ended {
		e.Metadata = maps.Clone(metadata)
	}
	e.mu.Unlock()
	return e.Refresh(ctx)
}

// TermsNow returns the terms, with the last metadata from Describe.
func (e *Entry) TermsNow() Terms { return locked(e, func() Terms { return e.Terms }) }

// Shares reports whether the hold is a writer's that now only reads, see [Entry.Share].
func (e *Entry) Shares() bool { return locked(e, func() bool { return e.shared }) }

// grantForRecord returns the grant for the record; e.mu is held.
func (e *Entry) grantForRecord() Grant {
	if e.acquired == 0 {
		return Grant{}
	}
	return Grant{Acquired: e.acquired, Shared: e.shared}
}

// RecordNow returns the record that a write at this moment would have, for error messages.
func (e *Entry) RecordNow() znode.Record {
	now := e.keeper.Clock.Local()
	return locked(e, func() znode.Record { return e.keeper.Record(&e.Terms, e.nextTTL, e.grantForRecord(), now) })
}
