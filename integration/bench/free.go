package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// free is workload A: one client locks and unlocks a lock that no other client uses, repeatedly.
func free(title string, bars ...bar) *experiment {
	return &experiment{
		table: table{"A", title, []figure{{"lock + unlock, median", milliseconds}, {"requests", decimals}, {"transactions", decimals}, {"bytes out", kilobytes}, {"bytes in", kilobytes}}, bars},
		turns: 12, takes: all,
		prepare: func(ctx context.Context, s *site, p *peer) (trial, error) {
			if p.open == nil {
				return startProcess(ctx, s, p, 1, task{command: []any{"free", s.cycles}, warmUp: s.warmUp, figures: freeFigures})
			}
			return withClients(1, freeLock(false))(ctx, s, p)
		},
	}
}

// freeAnew is like free, but uses a new lock for each cycle. Only peers with clients in this
// process take part.
func freeAnew(title string, bars ...bar) *experiment {
	e := free(title, bars...)
	e.takes, e.prepare = goPeers, withClients(1, freeLock(true))
	return e
}

func freeLock(anew bool) func(context.Context, *crew) (round, error) {
	return func(ctx context.Context, c *crew) (round, error) {
		lockers := []locker{c.sessions[0].locker(c.newPath())}
		cycles := func(ctx context.Context, n int) ([]float64, error) {
			if anew {
				lockers = lockers[:0]
				for range n {
					lockers = append(lockers, c.sessions[0].locker(c.newPath()))
				}
			}
			team := c.team(ctx, patience) // some peers' locks ignore a context
			defer team.end()
			times, err := timed(n, func(i int) error { return lockers[i%len(lockers)].cycle(team.ctx) })
			return times, errors.Join(err, context.Cause(team.ctx))
		}
		_, err := cycles(ctx, 30) // warms up
		return func(ctx context.Context) (turn, error) {
			var done performance
			var err error
			done.each, err = c.costOf(ctx, c.sessions, func() (int, error) {
				done.times, err = cycles(ctx, c.cycles)
				return len(done.times), err
			})
			if err != nil {
				return nil, err
			}
			return freeFigures(done), c.settle(ctx)
		}, err
	}
}

func freeFigures(done performance) turn {
	return turn{median(done.times), done.each.requests, done.each.transactions, done.each.out, done.each.in}
}

// manyParts is the number of turns that together take the time of a window. Many short turns are
// necessary, because the number of requests that share a commit varies, and the throughput with it.
const manyParts = 4

// many is workload B: n goroutines of one session, each with a lock that no other goroutine uses.
func many(n int, bars ...bar) *experiment {
	title := fmt.Sprintf("%d goroutines on one session, a lock each"+loopback, n)
	return manyLocks(title, n, 0, false, func(*peer) bool { return false }, bars).among("B", goPeers)
}

// manyContended is like many, but goroutines of a second session contend for half of the locks.
func manyContended(n int, bars ...bar) *experiment {
	title := fmt.Sprintf("%d goroutines on one session, a lock each; a second session wants half of them"+loopback, n)
	return manyLocks(title, n, n/2, false, func(*peer) bool { return false }, bars).among("B", func(p *peer) bool { return goPeers(p) && locks(p) })
}

// manyAnew is like many, but uses a new lock for each cycle.
func manyAnew(n int, bars ...bar) *experiment {
	title := fmt.Sprintf("%d goroutines on one session, another lock each time"+loopback, n)
	return manyLocks(title, n, 0, true, func(*peer) bool { return false }, bars).among("B", goPeers)
}

// manyReaders is like many, but all goroutines read one lock. With zk.Lock, each has a lock of its
// own.
func manyReaders(n int, bars ...bar) *experiment {
	readers := func(p *peer) bool { return p.open != nil && plays(reading)(p) }
	title := fmt.Sprintf("%d goroutines on one session read one lock; each has a zk.Lock of its own"+loopback, n)
	return manyLocks(title, n, 0, false, readers, bars).as("I", reading).among("I", func(p *peer) bool { return readers(p) || p.Name == zkLockName })
}

// manyLocks is like many or, with anew, manyAnew, with any title. If shared accepts a peer, all its
// goroutines use one lock. A second session has a goroutine for each of the first rivals locks.
func manyLocks(title string, n, rivals int, anew bool, shared func(*peer) bool, bars []bar) *experiment {
	e := &experiment{
		table: table{"", title, []figure{{"lock + unlock", perSecond}, {"requests", decimals}, {"transactions", decimals}}, bars},
		turns: 12,
	}
	if anew {
		e.Figures = append(e.Figures, figure{"99th percentile", milliseconds})
	}
	e.prepare = withClients(1+min(rivals, 1), func(ctx context.Context, c *crew) (round, error) {
		var lockers, contending []locker
		path := c.newPath()
		for i := range n {
			if !shared(c.peer) {
				path = c.newPath()
			}
			lockers = append(lockers, c.sessions[0].locker(path))
			if i < rivals {
				contending = append(contending, c.sessions[1].locker(path))
			}
		}
		lockers = append(lockers, contending...)
		round := func(ctx context.Context) (turn, error) {
			team := c.team(ctx, patience)
			defer team.end()
			var rate float64
			took := make([][]float64, len(lockers)) // of each cycle with a new lock, in seconds
			each, err := c.costOf(ctx, c.sessions, func() (int, error) {
				var cycles atomic.Int64
				start := time.Now()
				over := func() bool {
					cycles.Add(1)
					return time.Since(start) >= c.window/manyParts
				}
				team.run(len(lockers), func(i int) (err error) {
					if !anew {
						return lockers[i].cycleUntil(team.ctx, over)
					}
					for done := false; err == nil && !done; done = over() {
						begun := time.Now()
						err = c.sessions[0].locker(c.newPath()).cycle(team.ctx)
						took[i] = append(took[i], time.Since(begun).Seconds())
					}
					return err
				})
				err := team.wait()
				rate = float64(cycles.Load()) / time.Since(start).Seconds()
				return int(cycles.Load()), err
			})
			if err != nil {
				return nil, err
			}
			one := turn{rate, each.requests, each.transactions}
			if anew {
				one = append(one, quantile(slices.Concat(took...), 0.99))
			}
			return one, c.settle(ctx)
		}
		_, err := round(ctx) // warms up
		return round, err
	})
	return e
}
