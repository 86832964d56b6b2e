package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// handoff is workload C: n clients, each with a session of its own, take turns at
// one lock and hold it for a time.
func handoff(n int, hold time.Duration, bars ...bar) *experiment {
	return &experiment{
		workload: "C", title: fmt.Sprintf("handoff among %d clients that hold for %v, loopback", n, hold), bars: bars, takes: locks,
		figures: []figure{{"handoffs", perSecond}, {"unlock to next holder, median", milliseconds}, {"99th percentile", milliseconds}, {"bytes to clients", kilobytes}, {"bytes to server", kilobytes}, {"requests", decimals}, {"transactions", decimals}},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			path := b.newPath()
			if p.open == nil {
				one, err := startProcess(ctx, p, b.server.Addr(), path, n)
				return &handoffProcess{b, one, hold}, err
			}
			s, err := openAll(ctx, p, b.server.Addr(), n)
			if err != nil {
				return nil, err
			}
			t := &handoffTrial{bench: b, sessions: s, hold: hold}
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
	case <-ctx.Done():
	}
	latencies := turns.stop()
	took := time.Since(start)
	after, err := t.spent(ctx, t.sessions...)
	if err := errors.Join(err, <-finished); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
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

// handoffProcess is the trial of a peer that is a process. The bytes of its
// connections are not counted.
type handoffProcess struct {
	*bench
	*process
	hold time.Duration
}

func (t *handoffProcess) close() error { return t.process.close() }

func (t *handoffProcess) round(ctx context.Context) ([]float64, error) {
	before, err := t.spentByAll(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := t.ask(ctx, "handoff", t.hold.Nanoseconds(), t.window.Nanoseconds())
	if err != nil {
		return nil, err
	}
	if len(answer) < 3 {
		return nil, errors.New("the lock was not handed on")
	}
	turns, took, latencies := int(answer[0]), answer[1]/1e9, seconds(answer[2:])
	after, err := t.spentByAll(ctx)
	requests, transactions, _, _ := after.per(turns, before)
	return []float64{
		float64(len(latencies)) / took, median(latencies), quantile(latencies, 0.99), math.NaN(), math.NaN(), requests, transactions,
	}, err
}
