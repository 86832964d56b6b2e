package main

import (
	"context"
	"errors"
	"time"
)

// free is workload A: one client takes a lock that no other wants and gives it
// back, again and again.
func free(title string, bars ...bar) *experiment { return freeLocks(title, all, false, bars) }

// freeAnew is free with another lock each time.
func freeAnew(title string, bars ...bar) *experiment { return freeLocks(title, goPeers, true, bars) }

func freeLocks(title string, takes func(*peer) bool, anew bool, bars []bar) *experiment {
	return &experiment{
		workload: "A", title: title, bars: bars, turns: 12, takes: takes,
		figures: []figure{{"lock + unlock, median", milliseconds}, {"requests", decimals}, {"transactions", decimals}, {"bytes out", kilobytes}, {"bytes in", kilobytes}},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			if p.open == nil {
				one, err := startProcess(ctx, b, p, b.newPath(), 1, cycles(b.cycles))
				if err != nil {
					return nil, err
				}
				if _, err := one.ask(ctx, nil, "free", b.warmUp); err != nil {
					return nil, errors.Join(err, one.close())
				}
				return &freeProcess{b, one}, nil
			}
			s, err := openAll(ctx, p, b.at, 1)
			if err != nil {
				return nil, err
			}
			t := &freeTrial{bench: b, session: s[0], locker: s[0].locker(b.newPath()), anew: anew}
			if _, err := t.cycles(ctx, 30); err != nil {
				return nil, errors.Join(err, s.close())
			}
			return t, nil
		},
	}
}

type freeTrial struct {
	*bench
	session
	locker locker
	anew   bool // another locker for each cycle
}

func (t *freeTrial) close() error { return t.session.close() }

func (t *freeTrial) round(ctx context.Context) ([]float64, error) {
	before, err := t.spent(ctx, t.session)
	if err != nil {
		return nil, err
	}
	times, err := t.cycles(ctx, t.size.cycles)
	if err != nil {
		return nil, err
	}
	after, err := t.spent(ctx, t.session)
	if err != nil {
		return nil, err
	}
	requests, transactions, out, in := after.per(t.size.cycles, before)
	return []float64{median(times), requests, transactions, out, in}, settle(ctx, t.session)
}

// cycles locks and unlocks n times, and returns how many seconds each took.
func (t *freeTrial) cycles(ctx context.Context, n int) ([]float64, error) {
	var times []float64
	for range n {
		if t.anew {
			t.locker = t.session.locker(t.newPath())
		}
		start := time.Now()
		if err := t.locker.lock(ctx); err != nil {
			return nil, err
		}
		if err := t.locker.unlock(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start).Seconds())
	}
	return times, nil
}

// freeProcess is the trial of a peer that is a process.
type freeProcess struct {
	*bench
	*process
}

func (t *freeProcess) close() error { return t.process.close() }

func (t *freeProcess) round(ctx context.Context) ([]float64, error) {
	done, before, after, err := t.process.measure(ctx, func() (cost, error) { return t.spentByAll(ctx) })
	requests, transactions, _, _ := after.per(len(done.times), before)
	return []float64{median(done.times), requests, transactions, t.bytesOut, t.bytesIn}, err
}
