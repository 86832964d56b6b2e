// Package lease has the life of an entry from its create to its end: the lease that each write
// gives the owner, and the renewals.
//
// A lease counts from the send of an acknowledged write. While it is unknown whether a write was
// applied, the earlier of the two ends counts. The state of an entry only moves forward. Only
// Entry.transition changes it, and does everything that follows from the change.
package lease

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
)

// Reasons why an entry ended. Package lock exports the ones that end a hold.
var (
	// ErrUnlocked: its owner unlocked it.
	ErrUnlocked = errors.New("not held: unlocked already")
	// ErrWithdrawn: its owner gave up waiting.
	ErrWithdrawn = errors.New("withdrawn")
	// ErrGone: another client removed a waiter's entry, or overwrote it.
	ErrGone = errors.New("own entry is gone")
	// ErrExpired: the lease ended before a renewal was acknowledged, or it was a fixed lease.
	ErrExpired = errors.New("lease expired")
	// ErrRemoved: another client deleted the entry.
	ErrRemoved = errors.New("entry was removed")
	// ErrTaken: another client wrote the entry.
	ErrTaken = errors.New("entry was overwritten")
	// ErrBroken: another client has force-released the hold; the record says so.
	ErrBroken = errors.New("hold was broken")
	// ErrMaxHold: the policy's max_hold was reached.
	ErrMaxHold = errors.New("max_hold reached")
	// ErrShared: a hold for reading was asked to write.
	ErrShared = errors.New("hold is for reading only")
	// ErrReentered: a hold was asked to only read from now on, but another handle on it may
	// write.
	ErrReentered = errors.New("hold was taken more than once")
	// ErrAttached: another client has attached to the entry, and so has written it.
	ErrAttached = fmt.Errorf("%w: another client has attached to it", ErrTaken)
	// ErrDetached: its owner left it to the client that attaches to it.
	ErrDetached = errors.New("not held: detached")
)

// Terms are the conditions of an entry.
type Terms struct {
	TTL      time.Duration // of the first lease
	Grace    time.Duration // time after its lease for which other clients leave an entry alone
	MaxHold  time.Duration // 0: without limit
	Fixed    bool          // it is not renewed
	Detached bool          // no process has it: a client may attach to it
	Attempt  uint64        // random, unique to the request that created the node
	// Incarnation counts the earlier attaches of the entry.
	Incarnation int32
	Attachment  string            // random, unique to the present incarnation
	Metadata    map[string]string // of the record; the map is never changed, see Entry.Describe
}

// Grant is the part of a record about the grant.
type Grant struct {
	Acquired int64 // Unix ms of ensemble time; 0: not granted
	Shared   bool  // of a writer that now only reads: readers may enter
}

// recordWithin is the time within which the grant of a locally handed off entry is recorded if
// that is still wanted.
const recordWithin = time.Millisecond

// timerSlack is the lateness of a timer with which a hold still ends in time.
const timerSlack = 5 * time.Millisecond

// State is the state of an entry. It only moves forward.
type State uint8

// The states.
const (
	Queued  State = iota // created; not yet known whether its turn has come
	Waiting              // another contender is ahead of it
	Held                 // granted
	Ended                // unlocked, withdrawn, lost or gone
)

// Change is a change of an entry's state or risk.
type Change struct {
	From, To State         // both Held: the hold has come at risk
	Why      error         // reason of the end, or of the threat: an error of this package, or the owner's
	Left     time.Duration // at risk: time for which the hold surely lasts
	// Unanswered is, for a hold at risk, the time for which a write of the entry has been in
	// flight; 0: there is none, or it was sent just now.
	Unanswered time.Duration
}

// AtRisk reports whether the hold has come at risk: see [Entry.AtRisk].
func (c Change) AtRisk() bool { return c.From == Held && c.To == Held }

// Lost reports whether a hold ended before its holder ended it. A withdrawn entry was no hold,
// and a detached one is not lost.
func (c Change) Lost() bool {
	return c.From == Held && c.To == Ended &&
		!errors.Is(c.Why, ErrUnlocked) && !errors.Is(c.Why, ErrWithdrawn) && !errors.Is(c.Why, ErrDetached)
}

// Owner receives the changes of an entry.
type Owner interface {
	// LossOf returns the error that a hold's context and methods return after a loss. It is
	// called with the entry locked, and may only read constant data.
	LossOf(why error) error
	// Changed receives each change once, after it and outside of any lock. Calls for different
	// entries may be concurrent, and so may calls for changes of one entry at the same moment.
	Changed(Change)
}

// write is an attempt to write an entry's record, or several attempts with the same bytes.
type write struct {
	data     []byte
	ttl      time.Duration
	acquired int64
	wanted   uint32        // number of the last wanted write that it satisfies
	first    clock.Instant // before the first attempt
	flying   bool          // a goroutine is sending it
	doubt    bool          // an earlier attempt may have been applied
	keepsEnd bool          // the write does not move the lease's end
	raised   int32         // increase of the version; 0: unknown
	by       *atomic.Bool  // handle of its transaction, see Entry.Txn; nil: none
}
