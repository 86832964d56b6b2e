package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

const (
	perService = 8 // goroutines of one client that use the same lock
	services   = 16
	crowdTakes = 30 // duration of the measurement, in windows

	// longestWait is the limit of a goroutine's wait: the time of two turns of each client. A turn
	// takes the local window, and about a millisecond for the handoff.
	longestWait = 2 * services * (lock.DefaultLocalWindow + time.Millisecond)
)

// local returns workloads L and M: contenders that share a client.
func local(s size) []*experiment {
	waking := withinClient(64, shortHold, bar{Figure: 1, Limit: 20e-6})
	waking.own = []*peer{{Name: "channel", Title: "a Go channel", open: openChannel}}
	list := []*experiment{
		withinClient(64, 0, bar{Figure: 0, Against: zkLockName, Least: true, Limit: 100}, bar{Figure: 5, Limit: 0.05, Counted: !s.quick}),
		waking,
	}
	if !s.quick {
		long := withinClient(64, time.Second, bar{Figure: 5, Limit: 6, Counted: true}) // the next goroutine joins behind the hold
		long.rounds = 1                                                                // a round takes two minutes for each peer
		list = append(list, long, withinClient(1, 0), withinClient(8, 0), withinClient(1000, 0))
	}
	list = append(list, crowd(bar{Figure: 0, Against: zkLockName, Least: true, Limit: 10}, bar{Figure: 1, Least: true, Limit: 0.95},
		bar{Figure: 2, Limit: longestWait.Seconds()}))
	for _, n := range s.crowds {
		times := 1.2 // limit, as a multiple of zk.Lock's rate; Holdfast unlocks and joins again in one transaction
		if n == 16 {
			times = 1.6
		}
		e := handoff(fmt.Sprintf("handoff among %d contenders, %d to a client, without a window"+loopback, n, perService), contest{contenders: n, clients: n / perService},
			bar{Figure: 0, Against: zkLockName, Least: true, Limit: times}, bar{Figure: 6, Limit: 1.1, Counted: !s.quick})
		list = append(list, e.as("M", strictly).among("M", goLocks))
	}
	return list
}

// withinClient is workload L: handoff among n goroutines of one client.
func withinClient(n int, hold time.Duration, bars ...bar) *experiment {
	title := fmt.Sprintf("handoff among %d goroutines on one session that hold for %v"+loopback, n, hold)
	return handoff(title, contest{contenders: n, clients: 1, hold: hold}, bars...).among("L", goLocks)
}

// crowd is workload M: several clients with several goroutines each, all for one lock.
func crowd(bars ...bar) *experiment {
	return &experiment{
		table: table{"M", fmt.Sprintf("handoff among %d clients of %d goroutines each"+loopback, services, perService), []figure{{"handoffs", perSecond}, {"Jain's index of the clients", decimals}, {"99.9th percentile of the wait", milliseconds}, {"requests", decimals}}, bars},
		takes: goLocks, rounds: 2,
		prepare: withClients(services, func(_ context.Context, c *crew) (round, error) { return c.crowd, nil }),
	}
}

func (c *crew) crowd(ctx context.Context) (turn, error) {
	lasts := crowdTakes * c.window
	team := c.team(ctx, patience+lasts)
	defer team.end()
	path := c.newPath()
	turns := make([]float64, services)              // by client
	waits := make([][]float64, services*perService) // by goroutine; each in seconds
	inside := make(chan struct{}, 1)                // full while a goroutine holds the lock
	var all []float64
	var took time.Duration
	each, err := c.costOf(ctx, c.sessions, func() (int, error) {
		start := time.Now()
		team.run(services*perService, func(i int) error {
			l := c.sessions[i%services].locker(path)
			for time.Since(start) < lasts {
				asked := time.Now()
				if err := l.lock(team.ctx); err != nil {
					return err
				}
				select {
				case inside <- struct{}{}:
				default:
					return errTwo
				}
				turns[i%services]++
				waits[i] = append(waits[i], time.Since(asked).Seconds())
				<-inside
				if err := l.unlock(); err != nil {
					return err
				}
			}
			return nil
		})
		err := team.wait()
		took, all = time.Since(start), slices.Concat(waits...)
		return len(all), err
	})
	if err != nil {
		return nil, err
	}
	return turn{float64(len(all)) / took.Seconds(), jain(turns), quantile(all, 0.999), each.requests}, c.settle(ctx)
}

// jain returns Jain's index of fairness: 1 if all shares are equal, 1/n if only one of n is not 0,
// and 0 if all are 0.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// openChannel opens a session with one lock, a Go channel. The lock shows how long Go's runtime
// takes to wake the next goroutine.
func openChannel(context.Context, string) (session, error) {
	held := make(chan struct{}, 1)
	one := locker{
		lock: func(ctx context.Context) error {
			select {
			case held <- struct{}{}:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		unlock: func() error { <-held; return nil },
	}
	return session{
		locker: func(string) locker { return one },
		counts: func() zkserver.Counts { return zkserver.Counts{} },
		close:  func() error { return nil },
	}, nil
}
