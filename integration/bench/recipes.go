package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
)

const permitsTitle = "handoff of %d permits among %d clients that hold for %v" + loopback

// otherRecipes returns the experiments on read/write locks (workload I), semaphores (J), several locks
// together (K) and elections (C).
func otherRecipes(s size) []*experiment {
	const toRead = "free lock to read, one client" + loopback
	list := []*experiment{
		free(toRead, bar{Figure: 0, Against: curatorName, Limit: 0.8}, bar{Figure: 1, Limit: 2, Counted: true}).as("I", reading),
		free(toRead).as("I", reading).on(delayed, bar{Figure: 0, Against: curatorName, Limit: 0.8}),
		manyReaders(64, bar{Figure: 0, Against: zkLockName, Least: true, Limit: 1}),
		lastReader(bar{Figure: 1, Limit: 1, Counted: true}),
		lastReader().on(delayed, bar{Figure: 2, Limit: 1.5}),
		free("free semaphore, one client"+loopback, bar{Figure: 0, Against: curatorName, Limit: 0.5}, bar{Figure: 1, Limit: 2, Counted: true}).as("J", permits),
	}
	few := fmt.Sprintf(permitsTitle, permitCount, 16, shortHold)
	for _, n := range s.crowds {
		var bars []bar
		if n > 16 {
			bars = append(bars, bar{Figure: 3, Beside: few, Limit: 1.5, Counted: !s.quick})
		}
		if n == mostOfAll {
			bars = append(bars, bar{Figure: 3, Limit: 2500, Counted: !s.quick}, bar{Figure: 5, Limit: 7, Counted: !s.quick})
		}
		list = append(list, handoff(fmt.Sprintf(permitsTitle, permitCount, n, shortHold), contest{contenders: n, room: permitCount, hold: shortHold}, bars...).as("J", permits))
	}
	if !s.quick {
		list = append(list, manyPermits(bar{Figure: 8, Least: true, Limit: 48}))
	}
	several := free(fmt.Sprintf("%d free locks together, one client"+loopback, atATime), bar{Figure: 1, Limit: 2, Counted: true}, bar{Figure: 2, Limit: 2, Counted: true})
	return append(list, several.as("K", severally), leaders(16))
}

// manyPermits measures handoffs of many permits with delayed replies. It also reports how many
// permits are held.
func manyPermits(bars ...bar) *experiment {
	how := contest{contenders: mostOfAll, room: plentyCount, hold: 20 * time.Millisecond, telling: true}
	return handoff(fmt.Sprintf(permitsTitle, how.room, how.contenders, how.hold), how).as("J", plenty).on(delayed, bars...)
}

// leaders measures the handoff of an election's leadership: from the leader's call to resign until
// the next candidate's campaign returns.
func leaders(n int) *experiment {
	title := fmt.Sprintf("handoff of the leadership among %d candidates that lead for %v"+loopback, n, shortHold)
	return handoff(title, contest{contenders: n, hold: shortHold}).as("C", leading)
}

const (
	manyRead  = 100 // readers for which the writer waits
	perReader = 10  // readers on each session
)

// lastReader measures how long a writer waits after the last of many readers unlocks.
func lastReader(bars ...bar) *experiment {
	return &experiment{
		table: table{"I", fmt.Sprintf("a writer behind %d readers"+loopback, manyRead), []figure{{"last unlock done to writer in", milliseconds}, {"requests of the writer in that time", decimals}, {"the time, in round trips of the last unlock", decimals}}, bars},
		turns: 4, role: reading, takes: holdfastAlone,
		prepare: withClients(manyRead/perReader, func(ctx context.Context, c *crew) (round, error) {
			return c.lastReader, c.add(ctx, peerNamed(holdfastName).as(writing), 1)
		}),
	}
}

// lastReader runs one turn and returns its figures. The last session writes, and the others read.
func (c *crew) lastReader(ctx context.Context) (turn, error) {
	team := c.team(ctx, patience)
	defer team.end()
	path, readers, writer := c.newPath(), c.sessions[:len(c.sessions)-1], c.sessions[len(c.sessions)-1]
	reads := make([]locker, manyRead)
	if err := wait.All(len(reads), func(i int) error {
		reads[i] = readers[i%len(readers)].locker(path)
		return reads[i].lock(ctx)
	}); err != nil {
		return nil, err
	}
	write := writer.locker(path)
	var entered time.Time
	team.run(1, func(int) error {
		err := write.lock(team.ctx)
		entered = time.Now()
		return err
	})
	err := c.zookeeper.awaitWatches(team.ctx, 1)
	if err == nil {
		err = wait.All(len(reads)-1, func(i int) error { return reads[i+1].unlock() })
	}
	if err == nil {
		err = c.zookeeper.awaitWatches(team.ctx, 1) // until the writer watches the last reader's entry
	}
	before, called := writer.counts().Requests, time.Now()
	if err == nil {
		err = reads[0].unlock()
	}
	left := time.Now()
	if err != nil {
		team.fail(err)
	}
	if err := team.wait(); err != nil {
		return nil, err
	}
	requests := writer.counts().Requests - before
	if err := write.unlock(); err != nil {
		return nil, err
	}
	took := max(0, entered.Sub(left).Seconds())
	return turn{took, float64(requests), took / left.Sub(called).Seconds()}, c.settle(ctx)
}
