// Package lease manages an entry from its create to its end: the lease that each write gives it,
// and the renewals.
//
// A lease counts from the send of an acknowledged write. While a write may have been applied, the
// earlier end of the old and the new lease counts. The state of an entry only moves forward. Only
// Entry.transition changes the state, and it does everything that follows from the change.
package lease

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// Reasons why an entry ended, or why it refuses a request (ErrShared, ErrReentered). Package lock
// exports the reasons that end a hold.
var (
	// ErrUnlocked: the holder unlocked the entry.
	ErrUnlocked = errors.New("not held: unlocked already")
	// ErrWithdrawn: the client gave the entry up before a goroutine got it.
	ErrWithdrawn = errors.New("withdrawn")
	// ErrGone: another client removed a waiter's entry, or overwrote it.
	ErrGone = errors.New("own entry is gone")
	// ErrExpired: the lease ended, because no renewal was acknowledged in time.
	ErrExpired = errors.New("lease expired")
	// ErrRemoved: another client deleted the entry.
	ErrRemoved = errors.New("entry was removed")
	// ErrTaken: another client wrote the entry.
	ErrTaken = errors.New("entry was overwritten")
	// ErrBroken: another client has force-released the hold; the mark is in the record.
	ErrBroken = errors.New("hold was broken")
	// ErrMaxHold: the policy's max_hold was reached.
	ErrMaxHold = errors.New("max_hold reached")
	// ErrShared: a handle for writing is refused, because the hold only reads.
	ErrShared = errors.New("hold is for reading only")
	// ErrReentered: the hold cannot only read from now on, because another handle on it may write.
	ErrReentered = errors.New("hold was taken more than once")
	// ErrAttached: another client has attached to the entry, and so has written it.
	ErrAttached = fmt.Errorf("%w: another client has attached to it", ErrTaken)
	// ErrDetached: the holder detached the entry, so that another client can attach to it.
	ErrDetached = errors.New("not held: detached")
)

// Terms are the conditions of an entry.
type Terms struct {
	TTL         time.Duration // length of the first lease
	Grace       time.Duration // other clients wait this long after the lease before they delete the entry
	MaxHold     time.Duration // longest time of a hold; 0: no limit
	Detached    bool          // no process owns the entry: a client may attach to it
	Attempt     uint64        // random, unique to the request that created the node
	Incarnation int32         // number of attaches to the entry since its create
	Attachment  string        // random, unique to the present incarnation

	// Metadata is the user's metadata in the record. The map is never changed: Entry.Describe
	// replaces it.
	Metadata map[string]string
}

// Alike reports whether goroutines that ask for these terms can use one entry.
func (t *Terms) Alike(o *Terms) bool {
	return t.TTL == o.TTL && t.Grace == o.Grace && t.MaxHold == o.MaxHold && maps.Equal(t.Metadata, o.Metadata)
}

// Grant is the part of a record about the grant. The zero value means that there was none.
type Grant struct {
	Acquired int64 // time of the grant, Unix ms of ensemble time; 0: not granted
	Shared   bool  // the hold is a writer's that now only reads: readers may enter
}

// recordWithin is the time from a local handoff to the write of the grant into the record, if that
// write was due for the previous holder and was not made.
const recordWithin = time.Millisecond

// timerSlack is subtracted from each lease, so that a hold still ends in time if a timer fires that
// late.
const timerSlack = 5 * time.Millisecond

// State is the state of an entry. It only moves forward.
type State uint8

// The states of an entry, in their order.
const (
	Queued  State = iota // created; not yet known whether its turn has come
	Waiting              // another contender is ahead of it
	Held                 // granted
	Ended                // unlocked, withdrawn, detached or lost
)

// Change is a change of an entry's state or risk.
type Change struct {
	From, To State         // both Held: the hold is at risk now
	Why      error         // why the entry ended, or may end: an error of this package or from LossOf
	Left     time.Duration // if at risk: time for which the hold surely lasts
	Leased   time.Duration // if at risk: monotonic time from which the lease counts, another one at each risk
	// Unanswered is, if at risk, the time for which a write of the entry has been in flight; 0: no
	// write is in flight, or it was sent less than TTL/16 ago.
	Unanswered time.Duration
}

// AtRisk reports whether the change is that the hold is at risk now, see [Entry.AtRisk].
func (c Change) AtRisk() bool { return c.From == Held && c.To == Held }

// Lost reports whether a hold ended before its holder ended it. A withdrawn entry was no hold,
// and a detached one is not lost.
func (c Change) Lost() bool {
	return c.From == Held && c.To == Ended &&
		!errors.Is(c.Why, ErrUnlocked) && !errors.Is(c.Why, ErrWithdrawn) && !errors.Is(c.Why, ErrDetached)
}

// Owner is the user of an entry, which receives its changes.
type Owner interface {
	// LossOf returns the error that a hold's context and methods return after a loss. It is
	// called with the entry locked, and may only read constant data.
	LossOf(why error) error
	// Changed receives each change once, after the change and outside of any lock. Calls may be
	// concurrent, even for one entry if its changes follow each other closely.
	Changed(Change)
}

// Broken, unless nil, receives each broken invariant of an entry or of a lock's state. Tests set it.
var Broken func(error)

// check calls Broken if an invariant is broken; e.mu is held.
func (e *Entry) check() {
	if Broken == nil {
		return
	}
	w := e.writing
	switch {
	case (e.state == Ended) != (e.why != nil):
		e.broken("state %d, but it ended because of: %v", e.state, e.why)
	case e.state == Held && e.handles < 1:
		e.broken("it is held by %d handles", e.handles)
	case e.state != Ended && e.lapsed:
		e.broken("state %d, but its lease may have ended before it was unlocked", e.state)
	case e.recorded && e.acquired == 0:
		e.broken("its node has a grant, and it was granted at %d", e.acquired)
	case e.writesAcked > e.writesWanted:
		e.broken("write %d was acknowledged, and only %d are wanted", e.writesAcked, e.writesWanted)
	case w != nil && (w.e != e || w.version != e.version):
		e.broken("its write is one of %s on version %d, and the last acknowledged one left version %d", w.e.Path, w.version, e.version)
	}
}

func (e *Entry) broken(format string, values ...any) {
	Broken(fmt.Errorf("entry %s: "+format, append([]any{e.Path}, values...)...))
}
