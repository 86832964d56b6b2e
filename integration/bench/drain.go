package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// perSession is the number of waiters of one session, as many goroutines of one service might be.
const perSession = 10

func drainTitle(n int) string {
	return fmt.Sprintf("%d waiters of %d sessions join and are drained, loopback", n, n/perSession)
}

// drain is workload D: n waiters queue behind a holder. The holder unlocks, and then each waiter as
// soon as it has the lock.
func drain(n int, bars ...bar) *experiment {
	e := &experiment{
		table: table{"D", drainTitle(n), []figure{{"joining", milliseconds}, {"draining", milliseconds}, {"bytes to clients, for each waiter", kilobytes}, {"of these joining", kilobytes}, {"requests, for each", decimals}, {"transactions, for each", decimals}}, bars},
		takes: goLocks, role: apart, // all of them queue
		prepare: withClients(n/perSession, func(_ context.Context, c *crew) (round, error) {
			return func(ctx context.Context) (turn, error) { return c.drain(ctx, n) }, nil
		}),
	}
	if n > 1000 {
		e.rounds = 1 // zk.Lock takes over a gigabyte in each
	}
	return e
}

func (c *crew) drain(ctx context.Context, waiters int) (turn, error) {
	team := c.team(ctx, patience)
	defer team.end()
	path := c.newPath()
	holder := c.sessions[0].locker(path)
	if err := holder.lock(ctx); err != nil {
		return nil, err
	}
	start, err := c.spent(ctx, c.sessions...)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	team.run(waiters, func(i int) error { return c.sessions[i%len(c.sessions)].locker(path).cycle(team.ctx) })
	err = c.zookeeper.awaitWatches(team.ctx, waiters)
	joining := time.Since(begin)
	joined, counting := c.spent(ctx, c.sessions...)
	begin = time.Now()
	if err := errors.Join(err, counting, holder.unlock()); err != nil {
		team.fail(err)
	}
	if err := team.wait(); err != nil {
		return nil, err
	}
	draining := time.Since(begin)
	after, err := c.spent(ctx, c.sessions...)
	each := after.per(waiters, start)
	return turn{joining.Seconds(), draining.Seconds(), each.in, joined.per(waiters, start).in, each.requests, each.transactions}, err
}
