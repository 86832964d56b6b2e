package crew

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/lock"
)

// Serve does the work of a process whose configuration, in JSON, is in the environment variable env,
// and reports whether there is one. An error ends the process with status 1.
func Serve[C any](env string, work func(config C) error) bool {
	text := os.Getenv(env)
	if text == "" {
		return false
	}
	var config C
	err := json.Unmarshal([]byte(text), &config)
	if err == nil {
		err = work(config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// UntilInputEnds returns a context that ends with the standard input.
func UntilInputEnds() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

// Teller writes the records of a client's process to its standard output. It is safe for concurrent
// use.
type Teller struct {
	Worker string // the process's name

	mu    sync.Mutex
	out   *json.Encoder
	holds int
}

// Tell writes a record; its times are now, unless it has some. An error means that the controller has
// ended.
func (t *Teller) Tell(r Record) error {
	if r.Return == 0 {
		r.Return = monotonic.Now()
	}
	if r.Call == 0 {
		r.Call = r.Return
	}
	r.Worker = t.Worker
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out == nil {
		t.out = json.NewEncoder(os.Stdout)
	}
	return t.out.Encode(r)
}

// Held is a lock that a client has got.
type Held struct {
	Ask    func() (*monotonic.Claim, error) // the library's claim that the lock is held, or why it is not
	Token  string
	Unlock func() error
}

// Turn is a hold of a client. Base has what its records have in common.
type Turn struct {
	*Teller
	Held Held
	Base Record
}

// Turn takes a lock, calls inside, unlocks, and tells of all that. If it does not get the lock, it
// only tells why. Errors are those of Tell and inside.
func (t *Teller) Turn(base Record, take func() (Held, error), inside func(*Turn) error) error {
	r := base
	r.Op, r.Call = OpGrant, monotonic.Now()
	held, err := take()
	r.Return = monotonic.Now()
	if err != nil {
		r.Op, r.Result = OpTry, Classify(err)
		return t.Tell(r)
	}
	t.mu.Lock()
	t.holds++
	base.Hold, base.Token = fmt.Sprintf("%s/%d", t.Worker, t.holds), held.Token
	t.mu.Unlock()
	r.Hold, r.Token = base.Hold, base.Token
	r.Claim, _ = held.Ask() // if it is lost already, the next Ask tells
	turn := &Turn{t, held, base}
	if err := t.Tell(r); err != nil {
		return err
	}
	if err := inside(turn); err != nil {
		return err
	}
	// Written before the unlock, so that the claims end before other clients can enter.
	if err := turn.Say(OpLeave, nil, ""); err != nil {
		return err
	}
	r = base
	r.Op, r.Call = OpLeft, monotonic.Now()
	r.Result = Classify(held.Unlock())
	return t.Tell(r)
}

// Say tells of something that happens during the hold now.
func (t *Turn) Say(op string, c *monotonic.Claim, result string) error {
	r := t.Base
	r.Op, r.Claim, r.Result = op, c, result
	return t.Tell(r)
}

// Check asks the library whether the lock is held, and tells the claim by a record of op, or the loss.
func (t *Turn) Check(op string) (held bool, err error) {
	c, err := t.Held.Ask()
	if err != nil {
		return false, t.Say(OpLost, nil, Classify(err))
	}
	return true, t.Say(op, c, "")
}

// Hold is a [lock.Hold] or a [lock.Leadership].
type Hold interface {
	Token() lock.Token
	Remaining() time.Duration
	Err() error
	Unlock() error
}

// Holdfast makes a [Held] of a hold, if there is no error.
func Holdfast(h Hold, err error) (Held, error) {
	if err != nil {
		return Held{}, err
	}
	return Held{Token: h.Token().String(), Unlock: h.Unlock, Ask: func() (*monotonic.Claim, error) {
		if c := monotonic.Ask(h); c != nil {
			return c, nil
		}
		return nil, cmp.Or(h.Err(), ErrNotHeld)
	}}, nil
}

// ErrNotHeld is the answer of a library that does not say why the lock is not held.
var ErrNotHeld = errors.New("not held")

// Classes of errors.
const (
	Taken   = "held"        // a try found the lock taken
	GaveUp  = "gave up"     // the client waited for too long
	Expired = "expired"     // the lease or the session ended
	NotHeld = "not held"    // when asked, the library said so
	Unsure  = "unsure"      // the unlock was not confirmed in time
	Removed = "removed"     // a live entry was deleted: no client may do that
	Written = "overwritten" // a live entry was overwritten: no client may do that
)

// Classify returns the class of an error of Holdfast, or the text of an error without a class; "" for
// nil.
func Classify(err error) string {
	var unsure *lock.UnlockError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, lock.ErrRemoved):
		return Removed
	case errors.Is(err, lock.ErrTaken):
		return Written
	case errors.Is(err, lock.ErrExpired):
		return Expired
	case errors.Is(err, ErrNotHeld):
		return NotHeld
	case errors.As(err, &unsure): // must come before the deadline, which it may wrap
		return Unsure
	case errors.Is(err, context.DeadlineExceeded):
		return GaveUp
	case errors.Is(err, lock.ErrHeld):
		return Taken
	}
	return err.Error()
}
