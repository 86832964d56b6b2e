package lease

import (
	"context"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Describe has the record carry that metadata from now on, and waits until that was
// acknowledged. It fails as Refresh does; then the next renewal carries it.
func (e *Entry) Describe(ctx context.Context, metadata map[string]string) error {
	e.mu.Lock()
	if e.state != Ended {
		e.Metadata = metadata
	}
	e.mu.Unlock()
	return e.Refresh(ctx)
}

// TermsNow are the terms, with the metadata that was described last.
func (e *Entry) TermsNow() Terms { return locked(e, func() Terms { return e.Terms }) }

// Described is the metadata that the record carries, or will with the next write.
func (e *Entry) Described() map[string]string { return e.TermsNow().Metadata }

// Shares reports whether a writer's hold only reads from now on.
func (e *Entry) Shares() bool { return locked(e, func() bool { return e.shared }) }

// LeasedAt is from when on the lease counts: before the last acknowledged write was sent.
func (e *Entry) LeasedAt() clock.Instant {
	return locked(e, func() clock.Instant { return e.lease.sent })
}

// tells is what the record tells of the grant; e.mu is held.
func (e *Entry) tells() Grant {
	if e.acquired == 0 {
		return Grant{}
	}
	return Grant{Acquired: e.acquired, Shared: e.shared}
}

// RecordNow is the record as a write would leave it at this moment, for errors.
func (e *Entry) RecordNow() znode.Record {
	now := e.keeper.clock.Local()
	e.mu.Lock()
	data := e.keeper.Record(&e.Terms, e.nextTTL, e.tells(), now)
	e.mu.Unlock()
	r, err := znode.DecodeRecord(data)
	if err != nil {
		panic("lease: the record that was made is none: " + err.Error())
	}
	return r
}
