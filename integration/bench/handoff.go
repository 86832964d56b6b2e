package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// handoff is workload C: n clients, each with a session of its own, take turns at
// one lock and hold it for a time.
func handoff(n int, hold time.Duration, bars ...bar) *experiment {
	return &experiment{
		workload: "C", title: fmt.Sprintf("handoff among %d clients that hold for %v, loopback", n, hold), bars: bars, takes: locks,
		figures: []figure{{"handoffs", rate}, {"unlock to next holder, median", millis}, {"99th percentile", millis}, {"bytes to clients", bytes}, {"bytes to server", bytes}, {"requests", number}, {"transactions", number}},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			s, err := openAll(ctx, p, b.server.Addr(), n)
			if err != nil {
				return nil, err
			}
			t := &handoffTrial{bench: b, sessions: s, hold: hold}
			path := b.newPath()
			for _, one := range s {
				t.lockers = append(t.lockers, one.locker(path))
			}
			return t, nil
		},
	}
}

type handoffTrial struct {
	*bench
	sessions
	lockers []locker
	hold    time.Duration
}

func (t *handoffTrial) close() error { return t.sessions.close() }

func (t *handoffTrial) round(ctx context.Context) ([]float64, error) {
	ctx, fail, done := t.guard(ctx)
	defer done()
	turns := newTurns(len(t.lockers))
	finished := make(chan error, 1)
	go func() {
		finished <- together(len(t.lockers), func(i int) error {
			err := turns.play(ctx, t.lockers[i], t.hold)
			if err != nil {
				fail(err)
			}
			return err
		})
	}()
	select {
	case <-turns.running:
	case err := <-finished:
		return nil, err
	}
	before, err := t.spent(ctx, t.sessions...)
	if err != nil {
		fail(err)
	}
	turns.measure()
	start := time.Now()
	select {
	case <-time.After(t.window):
	case <-ctx.Done():
	}
	latencies := turns.stop()
	took := time.Since(start)
	after, err := t.spent(ctx, t.sessions...)
	if err := errors.Join(err, <-finished); err != nil {
		return nil, err
	}
	if len(latencies) == 0 {
		return nil, errors.New("the lock was not handed on")
	}
	requests, transactions, out, in := after.per(len(latencies), before)
	return []float64{
		float64(len(latencies)) / took.Seconds(), median(latencies), quantile(latencies, 0.99), in, out, requests, transactions,
	}, nil
}

// turns is what the clients of a handoff share.
type turns struct {
	running chan struct{} // closed when as many turns were had as there are clients: all queue by then

	mu        sync.Mutex
	missing   int // turns until then
	inside    bool
	unlocked  time.Time // the last call of unlock
	measuring bool
	stopped   bool
	latencies []float64 // seconds
}

func newTurns(clients int) *turns {
	return &turns{running: make(chan struct{}), missing: clients}
}

// play has one client take its turns until all stop.
func (t *turns) play(ctx context.Context, l locker, hold time.Duration) error {
	for {
		if err := l.lock(ctx); err != nil {
			return err
		}
		last, err := t.enter(time.Now())
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

var errTwo = errors.New("two hold the lock at once")

// enter notes that a client has the lock.
func (t *turns) enter(now time.Time) (last bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inside {
		return true, errTwo
	}
	t.inside = true
	if t.measuring {
		t.latencies = append(t.latencies, now.Sub(t.unlocked).Seconds())
	}
	if t.missing--; t.missing == 0 {
		close(t.running)
	}
	return t.stopped, nil
}

// leave notes that it calls unlock.
func (t *turns) leave(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inside, t.unlocked = false, now
}

func (t *turns) measure() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.measuring = true
}

// stop ends the measuring, and has each client leave after its next turn.
func (t *turns) stop() []float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.measuring, t.stopped = false, true
	return t.latencies
}
