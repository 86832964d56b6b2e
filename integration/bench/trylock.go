package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// waitersBehind wait behind the holder of a lock that others try.
const waitersBehind = 16

// tryLock is workload F: one client holds the lock, some wait for it, and another
// tries to have it, in vain.
func tryLock(bars ...bar) *experiment {
	return &experiment{
		workload: "F", title: fmt.Sprintf("failed try of a held lock with %d waiters"+loopback, waitersBehind), bars: bars, takes: tries,
		figures: []figure{{"try, median", milliseconds}, {"requests", decimals}, {"transactions: nodes written", decimals}, {"bytes to client", kilobytes}},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			s, err := openAll(ctx, p, b.at, 2+waitersBehind)
			if err != nil {
				return nil, err
			}
			path := b.newPath()
			own, ok := s[1].locker(b.newPath()), false
			t := &tryTrial{bench: b, sessions: s, holder: s[0].locker(path), finished: make(chan error, 1)}
			if t.locker, ok = s[1].locker(path).(trier); !ok {
				return nil, errors.Join(errors.New("it cannot try"), s.close())
			}
			// A client that has locked anything before.
			if err := errors.Join(own.lock(ctx), own.unlock(), t.holder.lock(ctx)); err != nil {
				return nil, errors.Join(err, s.close())
			}
			go func() {
				t.finished <- together(waitersBehind, func(i int) error {
					l := s[2+i].locker(path)
					if err := l.lock(ctx); err != nil {
						return err
					}
					return l.unlock()
				})
			}()
			if queue, ok := b.on.(queueing); ok {
				err = await(ctx, "all wait", func() (bool, error) {
					n, err := queue.queued(ctx, path)
					return n == 1+waitersBehind, err
				})
			}
			if err != nil {
				return nil, errors.Join(err, s.close())
			}
			return t, nil
		},
	}
}

type tryTrial struct {
	*bench
	sessions
	holder   locker
	finished chan error // of the waiters
	locker   trier
}

func (t *tryTrial) close() error {
	return errors.Join(t.holder.unlock(), <-t.finished, t.sessions.close())
}

func (t *tryTrial) round(ctx context.Context) ([]float64, error) {
	before, err := t.spent(ctx, t.sessions[1])
	if err != nil {
		return nil, err
	}
	var times []float64
	for range t.size.cycles {
		start := time.Now()
		got, err := t.locker.try(ctx)
		if err == nil && got {
			err = errTwo
		}
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(start).Seconds())
	}
	after, err := t.spent(ctx, t.sessions[1])
	requests, transactions, _, in := after.per(len(times), before)
	return []float64{median(times), requests, transactions, in}, err
}
