// Package lease keeps entries alive: the life of an entry, from its create until it
// ended, the lease that each write of it gives its owner, and the renewals (package
// queue, Holding).
//
// Trust counts from the send of a write that was acknowledged. As long as it is not
// known whether a write was applied, the earlier of the two ends counts. An entry's
// life moves forward only, and all that follows from a change of it hangs on one
// function, Entry.transition.
package lease

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
)

// Why an entry ended. Package lock makes its own errors of those that end a hold.
var (
	// ErrUnlocked: its owner unlocked it.
	ErrUnlocked = errors.New("not held: unlocked already")
	// ErrWithdrawn: its owner waits no longer.
	ErrWithdrawn = errors.New("withdrawn")
	// ErrGone: another client removed a waiter's entry, or overwrote it.
	ErrGone = errors.New("own entry is gone")
	// ErrExpired: the lease ran out before a renewal was acknowledged, or it was
	// a fixed one.
	ErrExpired = errors.New("lease expired")
	// ErrRemoved: another client deleted the entry.
	ErrRemoved = errors.New("entry was removed")
	// ErrTaken: another client wrote the entry.
	ErrTaken = errors.New("entry was overwritten")
	// ErrBroken: another client has broken the hold, and says so in the entry.
	ErrBroken = errors.New("hold was broken")
	// ErrMaxHold: the policy's max_hold was reached.
	ErrMaxHold = errors.New("max_hold reached")
	// ErrShared: a hold that only reads was asked to write.
	ErrShared = errors.New("hold is for reading only")
	// ErrReentered: a hold was asked to read from now on, and another handle on it may write.
	ErrReentered = errors.New("hold was taken more than once")
	// ErrAttached: another client has attached to the entry, and so wrote it.
	ErrAttached = fmt.Errorf("%w: another client has attached to it", ErrTaken)
	// ErrDetached: its owner left it to the client that attaches to it.
	ErrDetached = errors.New("not held: detached")
)

// Terms are what an entry is held on.
type Terms struct {
	TTL      time.Duration // of the first lease
	Grace    time.Duration // for how long after its lease other clients leave an entry alone
	MaxHold  time.Duration // 0: without limit
	Fixed    bool          // it is not renewed
	Detached bool          // no process has it: it is there to be attached to
	Attempt  uint64        // random, of the request that made the node: no other has it
	// Incarnation is how often the entry was handed on before.
	Incarnation int32
	Attachment  string            // random, of the present incarnation; no other one's writes have it
	Metadata    map[string]string // that the record carries; a map is not changed after, see Entry.Describe
}

// Grant is what a record tells of a hold.
type Grant struct {
	Acquired int64 // Unix ms of ensemble time; 0: not granted
	Shared   bool  // a writer's: it only reads since, and readers may enter
}

// recordWithin is how soon the grant of an entry that is passed on from one to the next is
// written, if it was to be and is not yet.
const recordWithin = time.Millisecond

// timerSlack is how late a timer may fire and a hold still end in time.
const timerSlack = 5 * time.Millisecond

// State is where an entry stands in its life. It only moves forward.
type State uint8

// The states.
const (
	Queued  State = iota // made; whether it is its turn is being found out
	Waiting              // another contender is ahead of it
	Held                 // granted
	Ended                // unlocked, withdrawn, lost or gone
)

// Change is a step in the life of an entry.
type Change struct {
	From, To State         // both Held: the hold has come at risk
	Why      error         // of the end, or of the one that threatens: one of this package's errors, or what the owner made of it
	Left     time.Duration // at risk: for how long the hold is still sure to last
	// Unanswered is at risk: for how long a write of the entry has been on its way; 0: none is,
	// or it was sent just now.
	Unanswered time.Duration
}

// AtRisk reports whether a hold has come at risk: see [Entry.AtRisk].
func (c Change) AtRisk() bool { return c.From == Held && c.To == Held }

// Lost reports whether a hold ended before its holder ended it. An entry that was withdrawn
// before a caller had got it is no hold, and one that was detached is not lost.
func (c Change) Lost() bool {
	return c.From == Held && c.To == Ended &&
		!errors.Is(c.Why, ErrUnlocked) && !errors.Is(c.Why, ErrWithdrawn) && !errors.Is(c.Why, ErrDetached)
}

// Owner is what an entry belongs to.
type Owner interface {
	// LossOf makes the error that a hold's context and methods tell of a loss. It is
	// called with the entry locked, and may only look at what does not change.
	LossOf(why error) error
	// Changed is told of each change once, after it and outside of any lock: changes of
	// different entries at the same time, and of one entry those too that happen at the
	// same moment.
	Changed(Change)
}

// write is an attempt to write an entry's record, or several with the same bytes.
type write struct {
	data     []byte
	ttl      time.Duration
	acquired int64
	wanted   uint32        // it answers all that was wanted up to here
	first    clock.Instant // before the first attempt
	flying   bool          // a goroutine is at it
	doubt    bool          // an earlier attempt may have been applied
	keepsEnd bool          // the lease ends when it would have without it
	raised   int32         // by how much it took the version up; 0: not known
	by       *atomic.Bool  // the handle whose transaction it is, see Entry.Txn; nil: none
}
