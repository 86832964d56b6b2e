package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// perSession is how many waiters of a session wait for one lock: as many
// goroutines of one service might.
const perSession = 10

func drainTitle(n int) string {
	return fmt.Sprintf("%d waiters of %d sessions join and are drained, loopback", n, n/perSession)
}

// drain is workload D: n waiters queue up behind a holder. It then gives the lock
// back, and so does each waiter as soon as it has it.
func drain(n int, bars ...bar) *experiment {
	e := &experiment{
		workload: "D", title: drainTitle(n), bars: bars, takes: goLocks, role: apart, // all of them queue
		figures: []figure{{"joining", milliseconds}, {"draining", milliseconds}, {"bytes to clients, for each waiter", kilobytes}, {"of these joining", kilobytes}, {"requests, for each", decimals}, {"transactions, for each", decimals}},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			s, err := openAll(ctx, p, b.server.Addr(), n/perSession)
			if err != nil {
				return nil, err
			}
			return &drainTrial{bench: b, sessions: s, waiters: n}, nil
		},
	}
	if n > 1000 {
		e.rounds = 1 // zk.Lock takes over a gigabyte in each
	}
	return e
}

type drainTrial struct {
	*bench
	sessions
	waiters int
}

func (t *drainTrial) close() error { return t.sessions.close() }

func (t *drainTrial) round(ctx context.Context) ([]float64, error) {
	ctx, fail, done := t.guard(ctx)
	defer done()
	path := t.newPath()
	holder := t.sessions[0].locker(path)
	if err := holder.lock(ctx); err != nil {
		return nil, err
	}
	start, err := t.spent(ctx, t.sessions...)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	finished := make(chan error, 1)
	go func() {
		finished <- together(t.waiters, func(i int) error {
			l := t.sessions[i%len(t.sessions)].locker(path)
			err := l.lock(ctx)
			if err == nil {
				err = l.unlock()
			}
			if err != nil {
				fail(err)
			}
			return err
		})
	}()
	// A waiter has joined for good when it watches the one before it.
	err = await(ctx, "all wait", func() (bool, error) {
		stats, err := t.server.Mntr(ctx)
		if err != nil {
			return false, err
		}
		watches, err := strconv.Atoi(stats["zk_watch_count"])
		return watches == t.waiters, err
	})
	if err != nil {
		fail(err)
		return nil, errors.Join(err, ended(ctx, finished))
	}
	joining := time.Since(begin)
	joined, err := t.spent(ctx, t.sessions...)
	begin = time.Now()
	if err := errors.Join(err, holder.unlock(), ended(ctx, finished)); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	draining := time.Since(begin)
	after, err := t.spent(ctx, t.sessions...)
	requests, transactions, _, in := after.per(t.waiters, start)
	_, _, _, atJoin := joined.per(t.waiters, start)
	return []float64{joining.Seconds(), draining.Seconds(), in, atJoin, requests, transactions}, err
}

// ended waits until all waiters have ended; once ctx has, not for ever: go-zookeeper's
// Close can hang on a connection that many use, and with it those of zk.Lock.
func ended(ctx context.Context, finished <-chan error) error {
	select {
	case err := <-finished:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-finished:
		return err
	case <-time.After(patience):
		return fmt.Errorf("waiters hang %v after their sessions were closed", patience)
	}
}
