package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	shortHold = 2 * time.Millisecond // where the lock is held at all
	mostOfAll = 128                  // clients that every peer can have; among more, those in Go take part, for fewer rounds
)

func handoffTitle(n int, hold time.Duration) string {
	return fmt.Sprintf("handoff among %d clients that hold for %v"+loopback, n, hold)
}

// handoff is workload C: n clients, each with a session of its own, take turns at
// one lock and hold it for a time.
func handoff(n int, hold time.Duration, bars ...bar) *experiment {
	return handoffOf(1, n, hold, bars...)
}

// handoffOf is handoff of a lock that so many have at a time.
func handoffOf(room, n int, hold time.Duration, bars ...bar) *experiment {
	return handoffBy(room, n, 1, hold, bars...)
}

// handoffBy is handoffOf among n contenders, so many of them on each client.
func handoffBy(room, n, each int, hold time.Duration, bars ...bar) *experiment {
	e := &experiment{
		workload: "C", title: handoffTitle(n, hold), bars: bars, takes: locks,
		figures: []figure{{"handoffs", perSecond}, {"unlock to next holder, median", milliseconds}, {"99th percentile", milliseconds}, {"bytes to clients", kilobytes}, {"bytes to server", kilobytes}, {"requests", decimals}, {"transactions", decimals}, {"share to another client", decimals}},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			path := b.newPath()
			if p.open == nil {
				one, err := startProcess(ctx, b, p, path, n, handoffs(hold, b.window))
				return &handoffProcess{b, one}, err
			}
			s, err := openAll(ctx, p, b.at, n/each)
			if err != nil {
				return nil, err
			}
			t := &handoffTrial{bench: b, sessions: s, hold: hold, room: room}
			for i := range n {
				t.lockers = append(t.lockers, s[i%len(s)].locker(path))
			}
			return t, nil
		},
	}
	if n > mostOfAll {
		e.takes, e.rounds = goLocks, 3
	}
	return e
}

type handoffTrial struct {
	*bench
	sessions
	lockers []locker
	hold    time.Duration
	room    int
	held    float64 // how many held the lock in the last round, on average
}

func (t *handoffTrial) close() error { return t.sessions.close() }

func (t *handoffTrial) round(ctx context.Context) ([]float64, error) {
	ctx, fail, done := t.guardFor(ctx, patience+2*time.Duration(len(t.lockers))*t.hold) // each has a turn before, and one after
	defer done()
	turns := newTurns(len(t.lockers), t.room)
	finished := make(chan error, 1)
	go func() {
		finished <- together(len(t.lockers), func(i int) error {
			err := turns.play(ctx, i, t.lockers[i], t.hold)
			if err != nil {
				fail(err)
			}
			return err
		})
	}()
	select {
	case <-turns.running:
	case err := <-finished:
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	before, err := t.spent(ctx, t.sessions...)
	if err != nil {
		fail(err)
	}
	turns.measure()
	start := time.Now()
	select {
	case <-time.After(t.window):
		select { // however slow
		case <-turns.passing:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	latencies, passed := turns.stop()
	took := time.Since(start)
	after, err := t.spent(ctx, t.sessions...)
	if err := errors.Join(err, <-finished); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	if len(latencies) == 0 {
		return nil, errors.New("the lock was not handed on")
	}
	requests, transactions, out, in := after.per(len(latencies), before)
	t.held = turns.held.Seconds() / took.Seconds()
	return []float64{
		float64(len(latencies)) / took.Seconds(), median(latencies), quantile(latencies, 0.99), in, out, requests, transactions, float64(passed) / float64(len(latencies)),
	}, nil
}

// turns is what the clients of a handoff share.
type turns struct {
	running chan struct{} // closed when as many turns were had as there are clients: all queue by then
	passing chan struct{} // closed when a handoff was measured

	room int // for how many there is

	mu        sync.Mutex
	missing   int // turns until then
	inside    int
	changed   time.Time     // when so many came to be inside
	held      time.Duration // of all contenders inside, since it is measured
	last      int           // the contender of the last turn
	unlocked  time.Time     // the last call of unlock
	measuring bool
	stopped   bool
	latencies []float64 // seconds
	passed    int       // of these, to another client
}

func newTurns(clients, room int) *turns {
	return &turns{running: make(chan struct{}), passing: make(chan struct{}), missing: clients, room: room}
}

// play has one client take its turns until all stop.
func (t *turns) play(ctx context.Context, client int, l locker, hold time.Duration) error {
	for {
		if err := l.lock(ctx); err != nil {
			return err
		}
		last, err := t.enter(client, time.Now())
		if err != nil {
			return err
		}
		if hold > 0 {
			time.Sleep(hold)
		}
		t.leave(time.Now())
		if err := l.unlock(); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

var errTwo = errors.New("more hold the lock at once than may")

// enter notes that a client has the lock.
func (t *turns) enter(client int, now time.Time) (last bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inside >= t.room {
		return true, errTwo
	}
	t.count(now)
	t.inside++
	if t.measuring {
		if t.latencies == nil {
			close(t.passing)
		}
		t.latencies = append(t.latencies, now.Sub(t.unlocked).Seconds())
		if client != t.last {
			t.passed++
		}
	}
	t.last = client
	if t.missing--; t.missing == 0 {
		close(t.running)
	}
	return t.stopped, nil
}

// leave notes that it calls unlock.
func (t *turns) leave(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(now)
	t.inside--
	t.unlocked = now
}

// count adds up how long the contenders inside have held the lock, before their number
// changes. t.mu is held.
func (t *turns) count(now time.Time) {
	if t.measuring {
		t.held += time.Duration(t.inside) * now.Sub(t.changed)
	}
	t.changed = now
}

func (t *turns) measure() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(time.Now())
	t.measuring = true
}

// stop ends the measuring, and has each client leave after its next turn.
func (t *turns) stop() (latencies []float64, passed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(time.Now())
	t.measuring, t.stopped = false, true
	return t.latencies, t.passed
}

// handoffProcess is the trial of a peer that is a process.
type handoffProcess struct {
	*bench
	*process
}

func (t *handoffProcess) close() error { return t.process.close() }

func (t *handoffProcess) round(ctx context.Context) ([]float64, error) {
	done, before, after, err := t.process.measure(ctx, func() (cost, error) { return t.spentByAll(ctx) })
	requests, transactions, _, _ := after.per(len(done.times), before)
	return []float64{
		float64(len(done.times)) / done.took, median(done.times), quantile(done.times, 0.99), t.bytesIn, t.bytesOut, requests, transactions, done.passed,
	}, err
}
