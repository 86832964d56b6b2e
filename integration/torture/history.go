package main

import (
	"encoding/json"
	"io"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast-io/holdfast/lock"
)

// instant is a time on the machine's monotonic clock, in nanoseconds. All processes
// of a machine read the same one: it is the true time of a run.
type instant int64

// never is a time after every run.
const never instant = math.MaxInt64

func now() instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Unix system has it
	}
	return instant(t.Nano())
}

// claim is what a hold said of itself when it was asked: at some time from From to
// To that it was valid, and that it would stay so until Until, whatever happens,
// unless it is unlocked.
type claim struct {
	From  instant `json:"from"`
	To    instant `json:"to"`
	Until instant `json:"until"`
}

// inquire asks a hold. The claim is nil if it is not valid. A process that is
// stopped while it asks learns an Until that may have passed by then: computed from
// From, it is never too late.
func inquire(h *lock.Hold) *claim {
	from := now()
	left := h.Remaining()
	to := now()
	if left <= 0 {
		return nil
	}
	return &claim{From: from, To: to, Until: from + instant(left)}
}

// The kinds of locks, and how much room each has for the weights of all holds that are in
// at a time: a reader weighs 1, a writer as much as there is room, and a hold of permits
// as many as it has.
const (
	mutex     = "mutex"
	rwMutex   = "rwmutex"
	semaphore = "semaphore"
	election  = "election"
)

var rooms = map[string]int{mutex: 1, rwMutex: 1 << 20, semaphore: 3, election: 1}

// What a record is of.
const (
	opTry   = "try"   // an attempt that did not get the lock; Result tells why
	opGrant = "grant" // the worker has got the lock
	opCheck = "check" // the hold was asked, and is valid
	opShare = "share" // the same, and it is about to become a reader: it makes no claim as a writer after
	opLeave = "leave" // it is about to be unlocked, and makes no claim after
	opLeft  = "left"  // it was unlocked; Result tells how
	opLost  = "lost"  // it is not valid any more; Result tells what the worker was told
	opShown = "shown" // the worker has asked for the leader, and was shown that token and value; 0: none
	opFault = "fault"
)

// Results of attempts to lock and unlock, and of losses. Others are the text of an error
// that nothing here should lead to.
const (
	resultHeld    = "held"    // a try found the lock taken
	resultGaveUp  = "gave up" // a wait took too long
	resultExpired = "expired"
	resultUnsure  = "unsure"  // an unlock that was not confirmed in time
	resultRemoved = "removed" // a live entry had been deleted: no client may do that
	resultTaken   = "taken"   // a live entry had been overwritten: nor that
	resultLapsed  = "lapsed"  // the hold found out when it was asked
)

// record is one thing that a worker did, or one fault.
type record struct {
	Op     string  `json:"op"`
	Worker string  `json:"worker,omitempty"` // w3.2: the third worker's second life
	Lock   string  `json:"lock,omitempty"`
	Kind   string  `json:"kind,omitempty"`   // of the lock
	Weight int     `json:"weight,omitempty"` // of the hold as it was granted, in the lock's room
	Token  int64   `json:"token,omitempty"`
	Call   instant `json:"call"`
	Return instant `json:"return"`
	Claim  *claim  `json:"claim,omitempty"`
	Value  string  `json:"value,omitempty"`  // of a candidate: that it gave or was shown
	Result string  `json:"result,omitempty"` // of the library's call; of a fault: which
}

// history is all that happened in a run.
type history struct {
	mu      sync.Mutex
	records []*record
}

func (h *history) add(r *record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

// count returns how many records are of an operation.
func (h *history) count(op string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.records {
		if r.Op == op {
			n++
		}
	}
	return n
}

// write writes the records as JSON lines.
func (h *history) write(w io.Writer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := json.NewEncoder(w)
	for _, r := range h.records {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
