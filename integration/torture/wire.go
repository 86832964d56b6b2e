package main

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-io/holdfast/lock"
)

// Times that all agree on. The grace has to exceed what the leaders' clocks differ
// by, which is 2*clockOff; the session timeout is below the TTL.
const (
	ttl            = 4 * time.Second
	grace          = 3 * time.Second
	clockOff       = 1250 * time.Millisecond // of one server's clock ahead, of another's behind
	sessionTimeout = 2500 * time.Millisecond
	unlockTimeout  = 5 * time.Second
	root           = "/torture"
)

// instant is a time on the machine's monotonic clock, in nanoseconds. All processes
// of a machine read the same one: it is the true time of a run.
type instant int64

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

// What a worker asks of the controller.
const (
	opNext  = "next"  // what to do; Result tells of the last attempt if it did not get the lock
	opGrant = "grant" // it has got the lock
	opRead  = "read"  // the register
	opWrite = "write" // the register
	opTake  = "take"  // the counter's value
	opPut   = "put"   // the counter's value
	opShare = "share" // it is about to downgrade to a reader, and makes no claim as a writer after
	opLeave = "leave" // it is about to unlock, and makes no claim after
	opLeft  = "left"  // it has unlocked; Result tells how
	opLost  = "lost"  // its hold is not valid any more; Result tells what it was told
	opShown = "shown" // it has asked for the leader, and was shown that token and value; 0: none
)

// request is what a worker sends, one JSON line each; the controller answers each.
type request struct {
	Op     string  `json:"op"`
	Lock   string  `json:"lock,omitempty"`
	Kind   string  `json:"kind,omitempty"`   // of the lock
	Weight int     `json:"weight,omitempty"` // of the hold as it was granted, in the lock's room
	Token  int64   `json:"token,omitempty"`
	Claim  *claim  `json:"claim,omitempty"`
	Value  string  `json:"value,omitempty"`
	Count  int     `json:"count,omitempty"`
	Call   instant `json:"call,omitempty"`   // when the operation began
	Return instant `json:"return,omitempty"` // when it had ended; of grant, left and shown only
	Last   instant `json:"last,omitempty"`   // when the reply to the request before arrived
	Result string  `json:"result,omitempty"`

	Session  int64      `json:"session,omitempty"`
	Password []byte     `json:"password,omitempty"`
	Stats    lock.Stats `json:"stats"`
}

// reply is the controller's answer.
type reply struct {
	Stop  bool   `json:"stop,omitempty"`
	Task  task   `json:"task"`
	OK    bool   `json:"ok,omitempty"`
	Token int64  `json:"token,omitempty"`
	Value string `json:"value,omitempty"`
	Count int    `json:"count,omitempty"`
}

// task is what a worker does next: take a lock, do the steps, give it back.
type task struct {
	Lock     string        `json:"lock"`
	Kind     string        `json:"kind"`
	Weight   int           `json:"weight"`
	Barge    bool          `json:"barge,omitempty"`
	Priority int           `json:"priority,omitempty"` // of a candidate
	Try      bool          `json:"try,omitempty"`
	Patience time.Duration `json:"patience,omitempty"` // 0: for ever
	Steps    []step        `json:"steps,omitempty"`
}

// step is one thing done while the lock is held.
type step struct {
	Op    string        `json:"op"` // opRead, opWrite, opShare, opShown, or opPut with the opTake before it
	Think time.Duration `json:"think"`
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

// results of attempts to lock and unlock, and of losses.
const (
	resultHeld    = "held"    // a try found the lock taken
	resultGaveUp  = "gave up" // a wait took too long
	resultExpired = "expired"
	resultUnsure  = "unsure"  // an unlock that was not confirmed in time
	resultRemoved = "removed" // a live entry had been deleted: no client may do that
	resultTaken   = "taken"   // a live entry had been overwritten: nor that
	resultLapsed  = "lapsed"  // the hold found out when it was asked
)
