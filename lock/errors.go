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
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Errors of calls; match with [errors.Is]. If a context ended the call, the error also matches
// that context's error and cause.
var (
	// ErrHeld says that another contender holds the lock. See [HeldError].
	ErrHeld = errors.New("lock is held by another contender")
	// ErrLost says that a hold ended before it was unlocked. The error also matches the reason: see
	// [LostError].
	ErrLost = errors.New("hold was lost")
	// ErrUnlocked says that a hold, or this handle of it, was already unlocked.
	ErrUnlocked = lease.ErrUnlocked
	// ErrDetached says that a hold was detached: its entry waits for a client with the ticket.
	ErrDetached = lease.ErrDetached
	// ErrClosed says that the client, or the connection given to [New], was closed.
	ErrClosed = zkconn.ErrClosed
	// ErrInvalid says that an argument or option was refused. The message has the argument's name,
	// its value and the rule.
	ErrInvalid = errors.New("invalid argument")
	// ErrForeign says that the lock's path holds a znode that Holdfast did not create: it has other
	// data, or cannot have children. The client has changed nothing.
	ErrForeign = queue.ErrForeign
	// ErrKind says that the name already belongs to another kind of lock.
	ErrKind = queue.ErrKind
	// ErrUpgrade says that a call would take a lock for writing with the context of a hold for
	// reading. See [RWMutex.Lock].
	ErrUpgrade = errors.New("a hold for reading cannot be upgraded")
	// ErrPermits says that the semaphore exists with another number of permits.
	ErrPermits = queue.ErrPermits
	// ErrExhausted says that the lock's node has had 2,147,483,647 entries, and cannot be made anew
	// because there are other nodes below it, such as those of other locks. The message names some.
	ErrExhausted = queue.ErrExhausted
	// ErrDenied says that an ACL forbids the request, or that the server refuses the client's SASL
	// credentials.
	ErrDenied = zkconn.ErrDenied
	// ErrSASL says that the authentication by SASL has failed, or that the server requires it. If
	// the credentials are at fault the error also matches ErrDenied; otherwise the client keeps
	// trying.
	ErrSASL = zkconn.ErrSASL
	// ErrInDoubt says that the transaction of a [Hold.Txn] may have been applied, or may still be applied
	// while the hold's entry exists. Any other error of a Txn says that nothing was or will be applied.
	ErrInDoubt = lease.ErrInDoubt
	// ErrNoLeader is the error of [Election.Leader] while no candidate leads. [Election.Observe] waits for
	// the next leader.
	ErrNoLeader = errors.New("no candidate leads")
	// ErrNotHeld says that [Client.Revoke] has made no request, because the lock has no holder.
	ErrNotHeld = errors.New("lock is not held")
	// ErrStalled says that renewals fail: see [Client.Check].
	ErrStalled = errors.New("renewals stall")
	// ErrUnavailable says that there is no session with ZooKeeper.
	ErrUnavailable = zkconn.ErrUnavailable
	// ErrUnsupported says that the server lacks behavior that the protocol requires: it does not
	// know ZooKeeper's transactions, its first reply to a transaction lacked the results, or it
	// otherwise differs from ZooKeeper. See [WithUnsafeServer].
	ErrUnsupported = zkconn.ErrUnsupported
)

// Reasons for the loss of a hold. A [LostError] matches [ErrLost], and one of these reasons or
// [ErrClosed].
var (
	// ErrExpired: the lease ended before a renewal was acknowledged.
	ErrExpired = lease.ErrExpired
	// ErrRemoved: the entry was deleted.
	ErrRemoved = lease.ErrRemoved
	// ErrTaken: another client wrote the entry.
	ErrTaken = lease.ErrTaken
	// ErrAttached: another client has attached to the entry. The error also matches ErrTaken.
	// [Client.Attach] fails with it too if another client attached first.
	ErrAttached = lease.ErrAttached
	// ErrBroken: the hold was force-released, for example by "holdfast break". The message names
	// the client that did it, and has the reason.
	ErrBroken = lease.ErrBroken
	// ErrMaxHold: the policy's max_hold was reached.
	ErrMaxHold = lease.ErrMaxHold
)

// HeldError names the entry in the way, and its owner. It matches [ErrHeld].
type HeldError struct {
	Lock  string // name of the lock
	Entry string // path of the entry in the way
	Owner string // owner of the entry; "" if unknown, as for another library's entry
	Host  string // host of the owner
	PID   int    // process id of the owner
	// Expires is the end of the entry's lease unless the owner renews it, in ensemble time as this
	// client last knew it. It is zero if unknown.
	Expires time.Time
	// Trouble is why the entry may stay longer than its lease: an ACL keeps this client from reading
	// or deleting it, or it is another library's and has stayed for the lock's TTL and grace. It is nil
	// if no such reason is known. HeldError does not match it.
	Trouble error
}

func (e *HeldError) Error() string {
	by := printable(e.Entry)
	if e.Owner != "" {
		by = fmt.Sprintf("%s (host %s, pid %d), whose lease ends at %s unless renewed",
			printable(e.Owner), printable(e.Host), e.PID, e.Expires.UTC().Format(time.RFC3339Nano))
	}
	if e.Trouble != nil {
		by += "; " + e.Trouble.Error()
	}
	return fmt.Sprintf("lock %q: %v: %s", e.Lock, ErrHeld, by)
}

// mostShown is the largest number of bytes that a message shows of another client's text.
const mostShown = 1024

// printable cuts another client's text if it is long, and quotes it if it could disturb a
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

// Is reports whether the target is [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// heldError returns the error for an entry in the way of the named lock. now is ensemble time.
func heldError(lock string, b *queue.Blocked, now znode.Now) *HeldError {
	h := &HeldError{Lock: lock, Entry: b.Path, Trouble: b.Trouble}
	if b.Entry != nil && b.Entry.Leased() {
		r := &b.Entry.Record
		h.Owner, h.Host, h.PID, h.Expires = r.Owner, r.Host, r.PID, b.Entry.Expires(now)
	}
	return h
}

// LostError names a lost hold and the reason. It matches [ErrLost] and Why.
type LostError struct {
	Lock  string // name of the lock
	Entry string // path of the entry
	Token Token
	Why   error // ErrExpired, ErrRemoved, ErrTaken, ErrAttached, ErrBroken, ErrMaxHold or ErrClosed
}

func (e *LostError) Error() string {
	return fmt.Sprintf("lock %q: %v: %v (entry %s, token %s)", e.Lock, ErrLost, e.Why, e.Entry, e.Token)
}

// Is reports whether the target is [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Why.
func (e *LostError) Unwrap() error { return e.Why }

// UnlockError says that ZooKeeper did not confirm an unlock or a [Hold.Detach]. For the holder the
// hold has ended. Its entry may block other clients until it is deleted or expires.
type UnlockError struct {
	Lock  string // name of the lock
	Entry string // path of the entry
	Err   error
}

func (e *UnlockError) Error() string {
	return fmt.Sprintf("unlock %q: not confirmed: %v", e.Lock, e.Err)
}

// Unwrap returns Err.
func (e *UnlockError) Unwrap() error { return e.Err }

// invalid returns an ErrInvalid that names the argument, its value and the rule.
func invalid(argument string, value any, rule string, args ...any) error {
	return fmt.Errorf("%w: %s %v: %s", ErrInvalid, argument, value, fmt.Sprintf(rule, args...))
}
