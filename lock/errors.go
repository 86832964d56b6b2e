package lock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// What calls fail with; match with [errors.Is]. Where a context ended the call,
// the error is that context's error and cause too.
var (
	// ErrHeld says that another contender holds the lock. See [HeldError].
	ErrHeld = errors.New("lock is held by another contender")
	// ErrLost says that a hold ended before it was unlocked. It comes with one
	// of the reasons below. See [LostError].
	ErrLost = errors.New("hold was lost")
	// ErrUnlocked says that a hold was unlocked already, or never was one.
	ErrUnlocked = lease.ErrUnlocked
	// ErrDetached says that a hold was detached: its entry is left to a client with the ticket.
	ErrDetached = lease.ErrDetached
	// ErrClosed says that the client was closed, or the connection it was given.
	ErrClosed = zkconn.ErrClosed
	// ErrInvalid says that an argument or option was refused; the message names
	// it, its value and the rule.
	ErrInvalid = errors.New("invalid argument")
	// ErrForeign says that the lock's path holds a znode that Holdfast did not create:
	// it has other data, or cannot have children. Nothing was touched.
	ErrForeign = queue.ErrForeign
	// ErrKind says that the name is in use for another kind of lock.
	ErrKind = queue.ErrKind
	// ErrUpgrade says that a lock was to be taken for writing by the context of a hold
	// for reading. See [RWMutex.Lock].
	ErrUpgrade = errors.New("a hold for reading cannot be upgraded")
	// ErrPermits says that a semaphore was made with another number of permits than it
	// is asked for with.
	ErrPermits = queue.ErrPermits
	// ErrDenied says that an ACL forbids what is needed.
	ErrDenied = zkconn.ErrDenied
	// ErrStalled says that renewals fail: see [Client.Check].
	ErrStalled = errors.New("renewals stall")
	// ErrUnavailable says that there was no session with ZooKeeper.
	ErrUnavailable = zkconn.ErrUnavailable
	// ErrUnsupported says that the server lacks behavior that the protocol requires: it
	// does not know ZooKeeper's transactions, its first reply to one lacked the results,
	// or it does not behave as ZooKeeper does. See [WithUnsafeServer].
	ErrUnsupported = zkconn.ErrUnsupported
)

// Why a hold was lost; [LostError] is one of these besides [ErrLost].
var (
	// ErrExpired: the lease ran out before a renewal was acknowledged, or it was
	// a fixed one.
	ErrExpired = lease.ErrExpired
	// ErrRemoved: the entry was deleted.
	ErrRemoved = lease.ErrRemoved
	// ErrTaken: another client wrote the entry.
	ErrTaken = lease.ErrTaken
	// ErrAttached: another client has attached to the entry. It is an ErrTaken too.
	// [Client.Attach] also fails with it if another client attached first.
	ErrAttached = lease.ErrAttached
	// ErrBroken: the hold was force-released, as "holdfast break" does. The message names
	// the owner that did so, and the reason.
	ErrBroken = lease.ErrBroken
	// ErrMaxHold: the policy's max_hold was reached.
	ErrMaxHold = lease.ErrMaxHold
)

// HeldError names the entry that is in the way, and its owner. It is an [ErrHeld].
type HeldError struct {
	Lock  string // name of the lock
	Entry string // path of the entry in the way
	Owner string // as the entry tells; "" if it is another library's
	Host  string
	PID   int
	// Expires is when the entry's lease ends unless it is renewed, in ensemble
	// time; zero if unknown.
	Expires time.Time
}

func (e *HeldError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("lock %q: %v: %s", e.Lock, ErrHeld, printable(e.Entry))
	}
	return fmt.Sprintf("lock %q: %v: %s (host %s, pid %d), whose lease ends at %s unless renewed",
		e.Lock, ErrHeld, printable(e.Owner), printable(e.Host), e.PID, e.Expires.UTC().Format(time.RFC3339Nano))
}

// mostShown is how many bytes a message shows of what another client wrote.
const mostShown = 1024

// printable cuts what another client wrote if it is long, and quotes it if it could disturb a
// terminal.
func printable(s string) string {
	if len(s) > mostShown {
		return printable(strings.ToValidUTF8(s[:mostShown], "")) + "…"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Is makes it an [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// heldError returns the error for an entry in the way of the named lock.
func heldError(lock string, b *queue.Blocked) *HeldError {
	h := &HeldError{Lock: lock, Entry: b.Path}
	if b.Entry != nil && b.Entry.Leased() {
		r := &b.Entry.Record
		h.Owner, h.Host, h.PID, h.Expires = r.Owner, r.Host, r.PID, b.Entry.Expires()
	}
	return h
}

// LostError tells which hold was lost, and why. It is an [ErrLost] and what Why is.
type LostError struct {
	Lock  string // name of the lock
	Entry string // path of the entry
	Token Token
	Why   error // ErrExpired, ErrRemoved, ErrTaken, ErrAttached, ErrBroken, ErrMaxHold or ErrClosed
}

func (e *LostError) Error() string {
	return fmt.Sprintf("lock %q: %v: %v (entry %s, token %s)", e.Lock, ErrLost, e.Why, e.Entry, e.Token)
}

// Is makes it an [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns why.
func (e *LostError) Unwrap() error { return e.Why }

// UnlockError says that ZooKeeper did not confirm an unlock in time. The hold has
// ended for its holder all the same; the entry may block others until it has
// been deleted or has expired.
type UnlockError struct {
	Lock  string // name of the lock
	Entry string // path of the entry
	Err   error
}

func (e *UnlockError) Error() string {
	return fmt.Sprintf("unlock %q: not confirmed: %v", e.Lock, e.Err)
}

// Unwrap returns what went wrong.
func (e *UnlockError) Unwrap() error { return e.Err }

// invalid returns an ErrInvalid that names the argument, its value and the rule.
func invalid(argument string, value any, rule string, args ...any) error {
	return fmt.Errorf("%w: %s %v: %s", ErrInvalid, argument, value, fmt.Sprintf(rule, args...))
}
