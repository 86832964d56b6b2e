package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// There are many short turns, because throughput changes by factors from one to the
// next, with how many requests happen to share a commit.
const (
	manyTurns = 12 // in a round
	manyParts = 4  // of a window make a turn
)

// many is workload B: n goroutines of one session, each with a lock that no
// other wants.
func many(n int, bars ...bar) *experiment {
	return manyLocks(fmt.Sprintf("%d goroutines on one session, a lock each"+loopback, n), n, goPeers, func(*peer) bool { return false }, bars)
}

// manyLocks is many, but the goroutines of a peer that shared selects have one lock together.
func manyLocks(title string, n int, takes, shared func(*peer) bool, bars []bar) *experiment {
	return &experiment{
		workload: "B", title: title, bars: bars, turns: manyTurns, takes: takes,
		figures: []figure{{"lock + unlock", perSecond}, {"requests", decimals}, {"transactions", decimals}},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			s, err := openAll(ctx, p, b.at, 1)
			if err != nil {
				return nil, err
			}
			t := &manyTrial{bench: b, sessions: s}
			path := b.newPath()
			for range n {
				if !shared(p) {
					path = b.newPath()
				}
				t.lockers = append(t.lockers, s[0].locker(path))
			}
			if _, err := t.round(ctx); err != nil { // warms up
				return nil, errors.Join(err, s.close())
			}
			return t, nil
		},
	}
}

type manyTrial struct {
	*bench
	sessions
	lockers []locker
}

func (t *manyTrial) close() error { return t.sessions.close() }

func (t *manyTrial) round(ctx context.Context) ([]float64, error) {
	ctx, fail, done := t.guard(ctx)
	defer done()
	before, err := t.spent(ctx, t.sessions...)
	if err != nil {
		return nil, err
	}
	var cycles atomic.Int64
	start := time.Now()
	err = together(len(t.lockers), func(i int) error {
		for { // once at least, however slow the machine
			err := t.lockers[i].lock(ctx)
			if err == nil {
				err = t.lockers[i].unlock()
			}
			if err != nil {
				fail(err)
				return err
			}
			cycles.Add(1)
			if time.Since(start) >= t.window/manyParts {
				return nil
			}
		}
	})
	took := time.Since(start)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	after, err := t.spent(ctx, t.sessions...)
	if err != nil {
		return nil, err
	}
	n := int(cycles.Load())
	requests, transactions, _, _ := after.per(n, before)
	return []float64{float64(n) / took.Seconds(), requests, transactions}, settle(ctx, t.sessions...)
}
