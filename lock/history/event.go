package history

import (
	"fmt"
	"time"
)

// Kind is what happened.
type Kind string

// The kinds of events; the package's doc explains them.
const (
	Joined       Kind = "joined"
	Granted      Kind = "granted"
	Recorded     Kind = "recorded"
	Renewed      Kind = "renewed"
	AtRisk       Kind = "at_risk"
	Expired      Kind = "expired"
	Released     Kind = "released"
	Withdrawn    Kind = "withdrawn"
	Purged       Kind = "purged"
	Swept        Kind = "swept"
	Removed      Kind = "removed"
	SessionEnded Kind = "session_ended"
	Vanished     Kind = "vanished"
	Broken       Kind = "broken"
	Detached     Kind = "detached"
	Attached     Kind = "attached"
	Shared       Kind = "shared"
	Overwritten  Kind = "overwritten"
	RevokeAsked  Kind = "revoke_asked"
	Made         Kind = "made"
	Adopted      Kind = "adopted"
	Deleted      Kind = "deleted"
	Permits      Kind = "permits"
	Tick         Kind = "tick"
	Leader       Kind = "leader"
	Clock        Kind = "clock"
)

// Ends reports whether the event ends its entry.
func (k Kind) Ends() bool {
	switch k {
	case Released, Withdrawn, Purged, Swept, Removed, SessionEnded, Vanished:
		return true
	}
	return false
}

// Ensemble reports whether the event is of the ensemble, not of a lock.
func (k Kind) Ensemble() bool { return k == Leader || k == Clock }

// Derived reports whether the event is no write, but follows from one: its time is the write's
// stamp and a part of the lease, its Zxid that of the write.
func (k Kind) Derived() bool { return k == AtRisk || k == Expired }

// Client is what a client says of itself in the entries that it writes.
type Client struct {
	Owner string
	Host  string
	PID   int
}

// Known reports whether the log has anything of the client.
func (c Client) Known() bool { return c != Client{} }

// String returns the client for people; it may contain any characters.
func (c Client) String() string {
	switch {
	case !c.Known():
		return "an unknown client"
	case c.Host == "" && c.PID == 0:
		return c.Owner
	}
	return fmt.Sprintf("%s (%s, pid %d)", c.Owner, c.Host, c.PID)
}

// Event is something that happened to a lock, or to the ensemble. Fields that the kind does not
// need are zero. Texts are as clients wrote them, and may contain any characters.
type Event struct {
	Kind    Kind
	Zxid    int64     // the transaction
	Time    time.Time // its stamp, by the leader's clock
	Session int64     // that made the transaction; Granted: 0 if that is not the entry's

	Lock  string // name, relative to the root
	Entry string // name of the entry's node
	Who   Client // the owner that the entry names
	By    Client // the client of the session, if it is another one and the log tells
	In    bool   // the entry held the lock, or was the first of a queue that may
	// Lease is the end of the lease: no client believes in this entry's hold after it, unless the
	// lease is renewed. By the clock of the leader of the transaction.
	Lease  time.Time
	TTL    time.Duration
	At     time.Time // Recorded: of the grant, in the client's estimate of the leader's time
	Again  bool      // Released: the process joined again in the same transaction, because others of its goroutines wait
	Late   bool      // Renewed and the kinds that end an entry: after the end of the lease
	Early  bool      // Purged, Swept: before the grace was over, as far as stamps tell
	Reason string    // Broken, RevokeAsked, Removed, Overwritten, Tick: why, or what
	Role   string    // Joined: "reads", "writes", "3 permits", "priority 5"; else ""
	From   int32     // Permits: the number before
	To     int32     // Permits, Made: the number
	Of     string    // Made, Adopted: the kind of the lock
	Step   time.Duration
	Prev   time.Time // Leader, Clock: the last stamp before

	mono time.Duration // stamps so far, without steps back; of the write that a derived event follows from, and the lease
}
