package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// waitersBehind is the number of waiters behind the holder of a lock that another client tries.
const waitersBehind = 16

// tryLock is workload F: one client holds the lock, some wait for it, and another client tries it
// in vain.
func tryLock(bars ...bar) *experiment {
	return &experiment{
		table: table{"F", fmt.Sprintf("failed try of a held lock with %d waiters"+loopback, waitersBehind), []figure{{"try, median", milliseconds}, {"requests", decimals}, {"transactions: nodes written", decimals}, {"bytes to client", kilobytes}}, bars},
		takes: tries,
		prepare: withClients(2+waitersBehind, func(ctx context.Context, c *crew) (round, error) {
			path := c.newPath()
			holder, client, waiters := c.sessions[0].locker(path), c.sessions[1], c.sessions[2:]
			// The client uses another lock first, so that the tries do not include the cost of its
			// first use.
			if err := errors.Join(client.locker(c.newPath()).cycle(ctx), holder.lock(ctx)); err != nil {
				return nil, err
			}
			finished := make(chan error, 1)
			go func() {
				finished <- wait.All(len(waiters), func(i int) error { return waiters[i].locker(path).cycle(ctx) })
			}()
			c.end = func() error { return errors.Join(holder.unlock(), <-finished) }
			tried := client.locker(path)
			return func(ctx context.Context) (turn, error) {
				var times []float64
				each, err := c.costOf(ctx, c.sessions[1:2], func() (n int, err error) {
					times, err = timed(c.cycles, func(int) error {
						got, err := tried.try(ctx)
						if err == nil && got {
							err = errTwo
						}
						return err
					})
					return len(times), err
				})
				return turn{median(times), each.requests, each.transactions, each.in}, err
			}, c.allWait(ctx, path, 1+waitersBehind)
		}),
	}
}

// allWait waits until n clients queue for a lock, the holder included. If the server cannot count
// them, it returns at once.
func (s *site) allWait(ctx context.Context, path string, n int) error {
	if s.on.queued == nil {
		return nil
	}
	return wait.Until(ctx, patience, "all wait", func() (bool, error) {
		queued, err := s.on.queued(ctx, path)
		return queued == n, err
	})
}

// askEvery is how long a client uses a lock repeatedly before another client requests it.
const askEvery = 100 * time.Millisecond

// ask measures a request for a lock that another client, the user, uses repeatedly. If the user
// caches the lease between uses, the request comes while the lock is unused. Otherwise it comes
// while the lock is held; its time counts from the unlock, and then the user requests the lock
// again. A third client uses another lock all the time, because peers that send no requests would
// leave the server idle.
func ask(bars ...bar) *experiment {
	return &experiment{
		table: table{"N", fmt.Sprintf("a lock that another client uses, asked for every %v"+loopback, askEvery), []figure{{"until it is had, median", milliseconds}, {"99th percentile", milliseconds}, {"requests of the client that asks", decimals}}, bars},
		role:  keeping,
		takes: func(p *peer) bool { return p.Name == holdfastName || p.Name == zkLockName },
		prepare: withClients(1, func(ctx context.Context, c *crew) (round, error) {
			if err := c.add(ctx, peerNamed(c.Name), 2); err != nil { // without the role: no cached lease
				return nil, err
			}
			path := c.newPath()
			user, asker, beside := c.sessions[0].locker(path), c.sessions[1].locker(path), c.sessions[2].locker(c.newPath())
			return func(ctx context.Context) (turn, error) { return c.ask(ctx, user, asker, beside) }, nil
		}),
	}
}

func (c *crew) ask(ctx context.Context, user, asker, beside locker) (turn, error) {
	team := c.team(ctx, patience)
	defer team.end()
	var done atomic.Bool
	team.run(1, func(int) error { return beside.cycleUntil(team.ctx, done.Load) })
	request := askHeld
	if plays(keeping)(c.peer) {
		request = askUnused
	}
	before := c.sessions[1].counts().Requests
	var took []float64
	for range max(2, 3*int(c.window/askEvery)) {
		start := time.Now()
		err := user.cycleUntil(team.ctx, func() bool { return time.Since(start) >= askEvery })
		var waited time.Duration
		if err == nil {
			waited, err = request(team.ctx, user, asker)
		}
		if err != nil {
			team.fail(err)
			break
		}
		took = append(took, waited.Seconds())
	}
	asks := c.sessions[1].counts().Requests - before
	done.Store(true)
	if err := team.wait(); err != nil {
		return nil, err
	}
	return turn{median(took), quantile(took, 0.99), float64(asks) / float64(len(took))}, c.settle(ctx)
}

// askUnused requests the lock while it is unused, and returns how long the request waits.
func askUnused(ctx context.Context, _, asker locker) (time.Duration, error) {
	time.Sleep(shortHold)
	start := time.Now()
	if err := asker.lock(ctx); err != nil {
		return 0, err
	}
	return time.Since(start), asker.unlock()
}

// askHeld requests the lock while it is held, and returns how long the request waits after the
// unlock.
func askHeld(ctx context.Context, user, asker locker) (time.Duration, error) {
	if err := user.lock(ctx); err != nil {
		return 0, err
	}
	var unlocked, had time.Time
	err := wait.All(2, func(i int) error {
		if i == 0 {
			if err := asker.lock(ctx); err != nil {
				return err
			}
			had = time.Now()
			return asker.unlock()
		}
		time.Sleep(shortHold)
		unlocked = time.Now()
		if err := user.unlock(); err != nil {
			return err
		}
		return user.cycle(ctx)
	})
	return had.Sub(unlocked), err
}
