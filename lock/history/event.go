package history

import (
	"fmt"
	"time"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events; the package's doc explains them.
const (
	Joined       Kind = "joined"
	Granted      Kind = "granted"
	Recorded     Kind = "recorded"
	Renewed      Kind = "renewed"
	AtRisk       Kind = "at_risk"
	InDoubt      Kind = "in_doubt"
	Expired      Kind = "expired"
	Released     Kind = "released"
	Withdrawn    Kind = "withdrawn"
	Purged       Kind = "purged"
	Swept        Kind = "swept"
	Removed      Kind = "removed"
	Ended        Kind = "ended"
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
	Restored     Kind = "restored"
)

// Ends reports whether the event ends its entry.
func (k Kind) Ends() bool {
	switch k {
	case Released, Withdrawn, Purged, Swept, Removed, Ended, SessionEnded, Vanished:
		return true
	}
	return false
}

// Ensemble reports whether the event concerns the ensemble, not a lock.
func (k Kind) Ensemble() bool { return k == Leader || k == Clock }

// Derived reports whether the event is no write, but follows from one. Its Zxid is that of the
// write. Its time is the stamp then: that of the write plus half of the lease, or all of it.
func (k Kind) Derived() bool { return k == AtRisk || k == InDoubt || k == Expired }

// Client identifies a client by the data of its entries.
type Client struct {
	Owner string
	Host  string
	PID   int
}

// Known reports whether the log identifies the client.
func (c Client) Known() bool { return c != Client{} }

// String describes the client in one line. The text may contain any characters.
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
	Session int64     // session of the transaction; Granted: 0 if it is not the entry's own

	Lock  string // name, relative to the root
	Entry string // name of the entry's node
	Who   Client // the owner that the entry names
	By    Client // the client of the session, if it is not Who and the log identifies it
	In    bool   // the entry's turn had come: its client held the lock, or was free to enter
	// Lease is the end of the lease, by the clock of the leader of the transaction. After it no
	// client believes in this entry's hold, unless the lease is renewed.
	Lease time.Time
	TTL   time.Duration // length of the lease
	// At is set for Recorded: the time of the grant, as the client estimated the leader's clock.
	At time.Time
	// Again is set for Released and Withdrawn: the transaction also creates another entry of the
	// lock, because other goroutines of the process wait.
	Again  bool
	Late   bool   // the owner's write, or the end of the entry, came after the end of the lease
	Early  bool   // Purged, Swept, Ended: before the end of the grace, as far as stamps show
	Reason string // Broken, RevokeAsked, Removed, Overwritten, Tick: why, or what
	Role   string // Joined: "reads", "writes", "3 permits", "priority 5"; else ""
	From   int32  // Permits: the number before
	To     int32  // Permits, Made: the new number
	Of     string // Made, Adopted, Deleted: the kind of the lock
	// Step is set for Leader and Clock: how far stamps jumped, as far as is known; negative: back.
	// Positive: a write waited for that long, or the clock was stepped ahead; the log does not show which.
	Step time.Duration
	Prev time.Time // Leader, Clock: the last stamp before

	mono   time.Duration // see point; a derived event adds its part of the lease
	over   bool          // the entry was deleted after its lease
	unsure bool          // if In is false, the log does not show whether the entry's turn had come
}
