package main

import (
	"context"
	"errors"
	"fmt"

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
