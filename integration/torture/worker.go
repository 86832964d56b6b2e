package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Settings of all processes. The grace must exceed the largest difference of two servers' clocks,
// 2*clockOff. The session timeout is below the TTL.
const (
	ttl            = 4 * time.Second
	grace          = 3 * time.Second
	clockOff       = 1250 * time.Millisecond // how far one server's clock is ahead, and another's behind
	sessionTimeout = 2500 * time.Millisecond
	unlockTimeout  = 5 * time.Second
	root           = "/torture"
)

// bases has the names of the locks, without the number, and their kinds.
var bases = []struct{ name, kind string }{
	{"orders", mutex},
	{"stock", mutex}, // half of its tasks barge
	{"eu/invoices", rwMutex},
	{"eu/refunds", semaphore},
	{"eu/primary", election},
}

// lockSpan is the time for which workers use a lock before they continue with the next number:
// porcupine needs memory for the square of a history's operations.
const lockSpan = 3 * time.Minute

// Numbers of the streams of random numbers. Each use has its own stream, so that its numbers do not
// depend on other uses.
const (
	serverStream = 0
	faultStream  = 1 << 10 // plus the worker's number
	taskStream   = 2 << 10 // plus the worker's number and lifeStream times its life
	lifeStream   = 4 << 10 // see taskStream
)

func stream(seed uint64, number int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(number))) }

// workerEnv makes this binary a worker; its value has the configuration.
const workerEnv = "HOLDFAST_TORTURE_WORKER"

type workerConfig struct {
	Seed    uint64
	Index   int
	Life    int
	Began   instant  // start of the run
	Servers []string // addresses of the worker's own relays
}

func (c workerConfig) name() string { return fmt.Sprintf("w%d.%d", c.Index, c.Life) }

func (c workerConfig) tasks() *rand.Rand {
	return stream(c.Seed, taskStream+c.Index+c.Life*lifeStream)
}

// worker is a process that takes one lock after the other. It writes records to its standard
// output, and ends when its standard input ends.
type worker struct {
	workerConfig
	locks *lock.Client
	out   *json.Encoder
	stood int // number of campaigns
}

// work is the main function of a worker.
func work(config string) error {
	w := worker{out: json.NewEncoder(os.Stdout)}
	if err := json.Unmarshal([]byte(config), &w.workerConfig); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	var err error
	w.locks, err = lock.Dial(context.Background(), w.Servers,
		lock.WithRoot(root), lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithOwner(w.name()),
		lock.WithSessionTimeout(sessionTimeout), lock.WithUnlockTimeout(unlockTimeout),
		lock.WithLogger(zerolog.New(os.Stderr).Level(zerolog.InfoLevel).With().Timestamp().Logger()))
	if err != nil {
		return err
	}
	for tasks := w.tasks(); ; {
		select {
		case <-ended:
			return w.close()
		default:
		}
		if err := w.do(draw(tasks, time.Duration(monotonic.Now()-w.Began))); err != nil {
			return err
		}
	}
}

// close closes the client. It first waits for a server, because the client leaves behind what it
// cannot delete in time.
func (w *worker) close() error {
	if _, err := w.locks.Election("closing").Leader(context.Background()); err != nil && !errors.Is(err, lock.ErrNoLeader) {
		return err
	}
	return w.locks.Close()
}

// task is the next work of a worker: take a lock, do the steps, unlock.
type task struct {
	lock     string
	kind     string
	weight   int
	barge    bool
	priority int // of the candidate
	try      bool
	patience time.Duration // 0: without limit
	steps    []step
}

// step is one step while the lock is held.
type step struct {
	op    string // opCheck, opShare or opShown
	think time.Duration
}

// draw returns a random task. at is the time since the start of the run; it decides the number in
// the lock's name.
func draw(r *rand.Rand, at time.Duration) task {
	base := bases[r.IntN(len(bases))]
	t := task{lock: fmt.Sprintf("%s/%d", base.name, at/lockSpan), kind: base.kind, weight: 1, barge: base.name == "stock" && r.IntN(2) == 0}
	switch {
	case t.kind == semaphore:
		t.weight += r.IntN(rooms[semaphore])
	case t.kind == rwMutex && r.IntN(3) == 0:
		t.weight = rooms[rwMutex]
	case t.kind == election:
		t.priority = 1 + r.IntN(3)
	}
	how, patience := r.IntN(10), wait.Between(r, 100*time.Millisecond, 3*time.Second)
	switch how {
	case 0:
		t.try = t.kind != election // candidates always wait
	case 1:
		t.patience = patience
	}
	think := 200 * time.Millisecond
	if r.IntN(8) == 0 {
		think *= 8 // long enough for renewals
	}
	for range 1 + r.IntN(5) {
		s := step{opCheck, wait.Between(r, 0, think)}
		if t.kind == election && r.IntN(2) == 0 {
			s.op = opShown
		}
		t.steps = append(t.steps, s)
	}
	if t.kind == rwMutex && t.weight > 1 && r.IntN(2) == 0 {
		t.steps = append(t.steps, step{op: opShare}, step{opCheck, wait.Between(r, 0, think)}, step{opCheck, wait.Between(r, 0, think)})
	}
	return t
}

// say writes a record. An error means that the controller has ended.
func (w *worker) say(r record) error {
	r.Worker = w.name()
	return w.out.Encode(r)
}

// do takes the task's lock, does the steps, unlocks, and records the results. If it does not get
// the lock, it only records why. An error means that the controller has ended.
func (w *worker) do(t task) error {
	ctx := context.Background()
	if t.patience > 0 {
		bound, cancel := context.WithTimeout(ctx, t.patience)
		defer cancel()
		ctx = bound
	}
	r := record{Op: opGrant, Lock: t.lock, Kind: t.kind, Weight: t.weight, Call: monotonic.Now()}
	hold, err := w.take(ctx, t)
	r.Return = monotonic.Now()
	if err != nil {
		r.Op, r.Result = opTry, classify(err)
		return w.say(r)
	}
	r.Token, r.Claim, r.Value = hold.Token().Number(), monotonic.Ask(hold), hold.Metadata()[znode.ValueKey]
	if err := w.say(r); err != nil {
		return err
	}
	a := act{w, hold, record{Lock: t.lock, Kind: t.kind, Weight: t.weight, Token: r.Token}}
	for _, s := range t.steps {
		if goOn, err := a.step(s); err != nil {
			return err
		} else if !goOn {
			break
		}
	}
	// Written before the unlock, so that the claims end before other clients can enter.
	if err := a.say(opLeave, nil, ""); err != nil {
		return err
	}
	r = a.base
	r.Op, r.Call = opLeft, monotonic.Now()
	r.Result = classify(hold.Unlock())
	r.Return = monotonic.Now()
	return w.say(r)
}

// take takes the task's lock, or tries to.
func (w *worker) take(ctx context.Context, t task) (anyHold, error) {
	var get, try func(context.Context) (*lock.Hold, error)
	switch t.kind {
	case mutex:
		m := w.locks.Mutex(t.lock)
		if t.barge {
			m = m.WithBarging()
		}
		get, try = m.Lock, m.TryLock
	case rwMutex:
		rw := w.locks.RWMutex(t.lock)
		if get, try = rw.RLock, rw.TryRLock; t.weight > 1 {
			get, try = rw.Lock, rw.TryLock
		}
	case semaphore:
		s := w.locks.Semaphore(t.lock, rooms[semaphore])
		get = func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, t.weight) }
		try = func(ctx context.Context) (*lock.Hold, error) { return s.TryAcquire(ctx, t.weight) }
	case election:
		w.stood++
		return w.locks.Election(t.lock).WithPriority(t.priority).Campaign(ctx, fmt.Sprintf("%s/%d", w.name(), w.stood))
	}
	if t.try {
		return try(ctx)
	}
	return get(ctx)
}

// anyHold is a [lock.Hold] or a [lock.Leadership].
type anyHold interface {
	Token() lock.Token
	Metadata() map[string]string
	Remaining() time.Duration
	Err() error
	Unlock() error
}

// act does the steps of a task with a hold. base has what all records of the hold share.
type act struct {
	*worker
	hold anyHold
	base record
}

// say writes a record about the hold.
func (a *act) say(op string, c *claim, result string) error {
	r := a.base
	r.Op, r.Claim, r.Result = op, c, result
	r.Call = monotonic.Now()
	r.Return = r.Call
	return a.worker.say(r)
}

// step checks that the hold is valid, as a careful program does, and does one step. It returns
// false if the hold has ended.
func (a *act) step(s step) (goOn bool, err error) {
	c := monotonic.Ask(a.hold)
	if c == nil {
		told := resultLapsed
		if err := a.hold.Err(); err != nil {
			told = classify(err)
		}
		return false, a.say(opLost, nil, told)
	}
	if s.op == opShare {
		// Written before the downgrade, so that the claims as a writer end before readers can
		// enter.
		if err := a.say(opShare, c, ""); err != nil {
			return false, err
		}
		if err := a.locks.RWMutex(a.base.Lock).Downgrade(context.Background(), a.hold.(*lock.Hold)); err != nil {
			return false, a.say(opLost, nil, classify(err))
		}
		return true, nil
	}
	if err := a.say(opCheck, c, ""); err != nil {
		return false, err
	}
	time.Sleep(s.think)
	if s.op == opShown {
		return true, a.askWhoLeads()
	}
	return true, nil
}

// askWhoLeads asks ZooKeeper for the leader and records the answer. It does not use the hold.
func (a *act) askWhoLeads() error {
	ctx, cancel := context.WithTimeout(context.Background(), sessionTimeout)
	defer cancel()
	r := record{Op: opShown, Lock: a.base.Lock, Kind: a.base.Kind, Call: monotonic.Now()}
	leader, err := a.locks.Election(r.Lock).Leader(ctx)
	r.Return = monotonic.Now()
	switch {
	case err == nil:
		r.Token, r.Value = leader.Token.Number(), leader.Value
	case !errors.Is(err, lock.ErrNoLeader):
		r.Result = classify(err)
	}
	return a.worker.say(r)
}

// classify returns the result of a call of the library: one of the known results, "" for success,
// or the error's text.
func classify(err error) string {
	var unsure *lock.UnlockError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, lock.ErrRemoved):
		return resultRemoved
	case errors.Is(err, lock.ErrTaken):
		return resultTaken
	case errors.Is(err, lock.ErrExpired):
		return resultExpired
	case errors.As(err, &unsure): // must come before DeadlineExceeded, which an UnlockError may wrap
		return resultUnsure
	case errors.Is(err, context.DeadlineExceeded):
		return resultGaveUp
	case errors.Is(err, lock.ErrHeld):
		return resultHeld
	}
	return err.Error()
}
