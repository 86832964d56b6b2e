package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// askEvery is how long a lock is used again and again before another client asks for it.
const askEvery = 100 * time.Millisecond

// ask is a lock that one client uses again and again, and another one asks for. If the
// lease is cached between uses, it asks while the lock is unused; else while it is held for
// a moment, and the time counts from the unlock, after which the user wants it again. Beside
// them a third client takes another lock all the time, so that the server is as awake for
// peers that send it no requests as for the others.
func ask(bars ...bar) *experiment {
	return &experiment{
		workload: "N", title: fmt.Sprintf("a lock that another client uses, asked for every %v"+loopback, askEvery), bars: bars, role: keeping,
		takes:   func(p *peer) bool { return p.name == holdfastName || p.name == zkLockName },
		figures: []figure{{"until it is had, median", milliseconds}, {"99th percentile", milliseconds}, {"requests of the client that asks", decimals}},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			user, err := openAll(ctx, p, b.at, 1)
			if err != nil {
				return nil, err
			}
			others, err := openAll(ctx, peerNamed(p.name), b.at, 2) // keep nothing
			if err != nil {
				return nil, errors.Join(err, user.close())
			}
			path := b.newPath()
			t := &askTrial{bench: b, sessions: slices.Concat(user, others), kept: plays(keeping)(p)}
			t.user, t.asker, t.beside = t.sessions[0].locker(path), t.sessions[1].locker(path), t.sessions[2].locker(b.newPath())
			return t, nil
		},
	}
}

// peerNamed is the peer of that name, without a role.
func peerNamed(name string) *peer {
	return peers[slices.IndexFunc(peers, func(p *peer) bool { return p.name == name })]
}

type askTrial struct {
	*bench
	sessions
	user, asker, beside locker
	kept                bool // between uses
}

func (t *askTrial) close() error { return t.sessions.close() }

func (t *askTrial) round(ctx context.Context) ([]float64, error) {
	ctx, fail, done := t.guard(ctx)
	defer done()
	stop := make(chan struct{})
	awake := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				awake <- nil
				return
			default:
			}
			if err = t.beside.lock(ctx); err == nil {
				err = t.beside.unlock()
			}
		}
		awake <- err
	}()
	var took []float64
	asks := t.sessions[1].counts().Requests
	for range max(2, 3*int(t.window/askEvery)) {
		d, err := t.turn(ctx)
		if err != nil {
			fail(err)
			close(stop)
			return nil, errors.Join(context.Cause(ctx), err, <-awake)
		}
		took = append(took, d.Seconds())
	}
	asks = t.sessions[1].counts().Requests - asks
	close(stop)
	if err := <-awake; err != nil {
		return nil, err
	}
	return []float64{median(took), quantile(took, 0.99), float64(asks) / float64(len(took))}, settle(ctx, t.sessions...)
}

// turn uses the lock, then has the other client ask for it, and returns how long that waits.
func (t *askTrial) turn(ctx context.Context) (time.Duration, error) {
	for start := time.Now(); time.Since(start) < askEvery; {
		if err := t.user.lock(ctx); err != nil {
			return 0, err
		}
		if err := t.user.unlock(); err != nil {
			return 0, err
		}
	}
	if t.kept {
		time.Sleep(shortHold) // it is unused
		asked := time.Now()
		err := t.asker.lock(ctx)
		took := time.Since(asked)
		if err != nil {
			return 0, err
		}
		return took, t.asker.unlock()
	}
	if err := t.user.lock(ctx); err != nil {
		return 0, err
	}
	var unlocked, had time.Time
	err := together(2, func(i int) (err error) {
		if i == 0 {
			if err = t.asker.lock(ctx); err == nil {
				had = time.Now()
				err = t.asker.unlock()
			}
			return err
		}
		time.Sleep(shortHold)
		unlocked = time.Now()
		if err = t.user.unlock(); err == nil {
			err = t.user.lock(ctx)
		}
		if err == nil {
			err = t.user.unlock()
		}
		return err
	})
	return had.Sub(unlocked), err
}
