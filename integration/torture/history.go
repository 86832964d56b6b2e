package main

import (
	"math"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

type (
	instant = monotonic.Instant
	claim   = monotonic.Claim
)

// never is a time after every run.
const never instant = math.MaxInt64

// Kinds of locks. The weights of the holds that a lock has at the same time must fit into its room
// (rooms). A reader weighs 1, a writer the whole room, and a hold of permits their number.
const (
	mutex     = "mutex"
	rwMutex   = "rwmutex"
	semaphore = "semaphore"
	election  = "election"
)

var rooms = map[string]int{mutex: 1, rwMutex: 1 << 20, semaphore: 3, election: 1}

// Kinds of records.
const (
	opTry   = "try"   // an attempt that did not get the lock; Result says why
	opGrant = "grant" // the worker has got the lock
	opCheck = "check" // the worker checked the hold, and it is valid
	opShare = "share" // as opCheck; from Call on, the worker claims to be a reader only
	opLeave = "leave" // the worker is about to unlock; from Call on, it claims nothing
	opLeft  = "left"  // the worker has unlocked; Result says how
	opLost  = "lost"  // the hold is invalid; Result has the error that the worker got
	opShown = "shown" // the worker asked for the leader, and got Token and Value; Token 0: no leader
	opFault = "fault"
)

// Results of attempts to lock and unlock, and of losses. Any other result is the text of an
// unexpected error.
const (
	resultHeld    = "held"    // a try found the lock taken
	resultGaveUp  = "gave up" // a wait took too long
	resultExpired = "expired"
	resultUnsure  = "unsure"  // the unlock was not confirmed in time
	resultRemoved = "removed" // a live entry was deleted: no client may do that
	resultTaken   = "taken"   // a live entry was overwritten: no client may do that
	resultLapsed  = "lapsed"  // a check found that the lease had ended
)

// record is one operation of a worker, or one fault.
type record struct {
	Op     string  `json:"op"`
	Worker string  `json:"worker,omitempty"` // w3.2: second process of the worker with index 3
	Lock   string  `json:"lock,omitempty"`
	Kind   string  `json:"kind,omitempty"`   // kind of the lock
	Weight int     `json:"weight,omitempty"` // part of the lock's room that the hold got
	Token  int64   `json:"token,omitempty"`
	Call   instant `json:"call"`
	Return instant `json:"return"`
	Claim  *claim  `json:"claim,omitempty"`
	Value  string  `json:"value,omitempty"`  // value that a candidate set or read
	Result string  `json:"result,omitempty"` // result of the library's call, or the name of a fault
}

// history has all events of a run.
type history = crew.History[*record]

// count returns how many records are of an operation.
func count(h *history, op string) int {
	return h.Count(func(r *record) bool { return r.Op == op })
}
