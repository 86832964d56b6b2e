package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/judge"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
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
	{"orders", judge.Mutex},
	{"stock", judge.Mutex}, // half of its tasks barge
	{"eu/invoices", judge.RWMutex},
	{"eu/refunds", judge.Semaphore},
	{"eu/primary", judge.Election},
}

// lockSpan is the time for which workers use a lock before they continue with the next number:
// porcupine needs memory for the square of a history's operations.
const lockSpan = 3 * time.Minute

// Numbers of the streams of random numbers of tasks. The faults have streams of lower numbers.
const (
	taskStream = 2 << 10 // plus the worker's number and lifeStream times its life
	lifeStream = 4 << 10
)

func stream(seed uint64, number int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(number))) }

// workerEnv makes this binary a worker; its value has the configuration.
const workerEnv = "HOLDFAST_TORTURE_WORKER"

type workerConfig struct {
	Seed    uint64
	Index   int
	Life    int
	Began   monotonic.Instant // start of the run
	Servers []string          // addresses of the worker's own relays
}

func (c workerConfig) tasks() *rand.Rand {
	return stream(c.Seed, taskStream+c.Index+c.Life*lifeStream)
}

// worker is a process that takes one lock after the other.
type worker struct {
	crew.Teller
	locks *lock.Client
	stood int // number of campaigns
}

// work is the main function of a worker.
func work(config workerConfig) (err error) {
	ctx := crew.UntilInputEnds()
	w := worker{Teller: crew.Teller{Worker: crew.Name(config.Index, config.Life)}}
	w.locks, err = lock.Dial(context.Background(), config.Servers,
		lock.WithRoot(root), lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithOwner(w.Worker),
		lock.WithSessionTimeout(sessionTimeout), lock.WithUnlockTimeout(unlockTimeout),
		lock.WithLogger(zerolog.New(os.Stderr).Level(zerolog.InfoLevel).With().Timestamp().Logger()))
	if err != nil {
		return err
	}
	for tasks := config.tasks(); ctx.Err() == nil; {
		if err := w.do(draw(tasks, time.Duration(monotonic.Now()-config.Began))); err != nil {
			return err
		}
	}
	// A client leaves behind what it cannot delete in time: so wait for a server.
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
	op    string // crew.OpCheck, judge.OpShare or judge.OpShown
	think time.Duration
}

// draw returns a random task. at is the time since the start of the run; it decides the number in
// the lock's name.
func draw(r *rand.Rand, at time.Duration) task {
	base := bases[r.IntN(len(bases))]
	t := task{lock: fmt.Sprintf("%s/%d", base.name, at/lockSpan), kind: base.kind, weight: 1, barge: base.name == "stock" && r.IntN(2) == 0}
	switch {
	case t.kind == judge.Semaphore:
		t.weight += r.IntN(judge.Rooms[judge.Semaphore])
	case t.kind == judge.RWMutex && r.IntN(3) == 0:
		t.weight = judge.Rooms[judge.RWMutex]
	case t.kind == judge.Election:
		t.priority = 1 + r.IntN(3)
	}
	how, patience := r.IntN(10), wait.Between(r, 100*time.Millisecond, 3*time.Second)
	switch how {
	case 0:
		t.try = t.kind != judge.Election // candidates always wait
	case 1:
		t.patience = patience
	}
	think := 200 * time.Millisecond
	if r.IntN(8) == 0 {
		think *= 8 // long enough for renewals
	}
	for range 1 + r.IntN(5) {
		s := step{crew.OpCheck, wait.Between(r, 0, think)}
		if t.kind == judge.Election && r.IntN(2) == 0 {
			s.op = judge.OpShown
		}
		t.steps = append(t.steps, s)
	}
	if t.kind == judge.RWMutex && t.weight > 1 && r.IntN(2) == 0 {
		t.steps = append(t.steps, step{op: judge.OpShare}, step{crew.OpCheck, wait.Between(r, 0, think)}, step{crew.OpCheck, wait.Between(r, 0, think)})
	}
	return t
}

// do takes the task's lock, does the steps, and unlocks. An error means that the controller has ended.
func (w *worker) do(t task) error {
	ctx := context.Background()
	if t.patience > 0 {
		bound, cancel := context.WithTimeout(ctx, t.patience)
		defer cancel()
		ctx = bound
	}
	base := crew.Record{Lock: t.lock, Kind: t.kind, Weight: t.weight}
	if t.kind == judge.Election {
		w.stood++
		base.Value = fmt.Sprintf("%s/%d", w.Worker, w.stood)
	}
	var hold crew.Hold
	take := func() (_ crew.Held, err error) {
		hold, err = w.take(ctx, t, base.Value)
		return crew.Holdfast(hold, err)
	}
	return w.Turn(base, take, func(turn *crew.Turn) error {
		for _, s := range t.steps {
			if goOn, err := w.step(turn, hold, s); err != nil || !goOn {
				return err
			}
		}
		return nil
	})
}

// take takes the task's lock, or tries to.
func (w *worker) take(ctx context.Context, t task, value string) (crew.Hold, error) {
	var get, try func(context.Context) (*lock.Hold, error)
	switch t.kind {
	case judge.Mutex:
		m := w.locks.Mutex(t.lock)
		if t.barge {
			m = m.WithBarging()
		}
		get, try = m.Lock, m.TryLock
	case judge.RWMutex:
		rw := w.locks.RWMutex(t.lock)
		if get, try = rw.RLock, rw.TryRLock; t.weight > 1 {
			get, try = rw.Lock, rw.TryLock
		}
	case judge.Semaphore:
		s := w.locks.Semaphore(t.lock, judge.Rooms[judge.Semaphore])
		get = func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, t.weight) }
		try = func(ctx context.Context) (*lock.Hold, error) { return s.TryAcquire(ctx, t.weight) }
	case judge.Election:
		return w.locks.Election(t.lock).WithPriority(t.priority).Campaign(ctx, value)
	}
	if t.try {
		return try(ctx)
	}
	return get(ctx)
}

// step checks that the hold is valid, as a careful program does, and does one step. It returns
// false if the hold has ended.
func (w *worker) step(turn *crew.Turn, hold crew.Hold, s step) (goOn bool, err error) {
	// A share is written before the downgrade, so that the claims as a writer end before readers can
	// enter.
	told := crew.OpCheck
	if s.op == judge.OpShare {
		told = judge.OpShare
	}
	if goOn, err := turn.Check(told); err != nil || !goOn {
		return false, err
	}
	time.Sleep(s.think)
	switch s.op {
	case judge.OpShare:
		if err := w.locks.RWMutex(turn.Base.Lock).Downgrade(context.Background(), hold.(*lock.Hold)); err != nil {
			return false, turn.Say(crew.OpLost, nil, crew.Classify(err))
		}
	case judge.OpShown:
		return true, w.askWhoLeads(turn.Base.Lock)
	}
	return true, nil
}

// askWhoLeads asks ZooKeeper for the leader and records the answer.
func (w *worker) askWhoLeads(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sessionTimeout)
	defer cancel()
	r := crew.Record{Op: judge.OpShown, Lock: name, Kind: judge.Election, Call: monotonic.Now()}
	leader, err := w.locks.Election(name).Leader(ctx)
	r.Return = monotonic.Now()
	switch {
	case err == nil:
		r.Token, r.Value = leader.Token.String(), leader.Value
	case !errors.Is(err, lock.ErrNoLeader):
		r.Result = crew.Classify(err)
	}
	return w.Tell(r)
}
