package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// Roles of contenders in one process.
const (
	strictly = "strictly" // no entry is handed on within a client
	apart    = "apart"    // each contender has an entry of its own
	keeping  = "keeping"  // the lock is kept between uses
)

const (
	perService = 8 // goroutines of one client that want the same lock
	services   = 16
	keepFor    = 500 * time.Millisecond
	crowdTakes = 30 // windows

	// longestWait of a goroutine for which two turns of every client come first: each of them
	// takes the window, and a handoff to the next one, of a millisecond or so.
	longestWait = 2 * services * (lock.DefaultLocalWindow + time.Millisecond)
)

func localTitle(n int, hold time.Duration) string {
	return fmt.Sprintf("handoff among %d goroutines on one session that hold for %v"+loopback, n, hold)
}

func strictTitle(n, each int) string {
	return fmt.Sprintf("handoff among %d contenders, %d to a client, without a window"+loopback, n, each)
}

// local are workloads L, M and N: contenders that share a client, and a lock that its last
// owner takes again.
func local(s size) []*experiment {
	passing := handoffBy(1, 64, 64, 0, bar{figure: 0, against: zkLockName, least: true, limit: 100}, bar{figure: 5, limit: 0.05, counted: !s.quick})
	list := []*experiment{
		passing.called("L", localTitle(64, 0)),
		handoffBy(1, 64, 64, shortHold, bar{figure: 1, limit: 20e-6}).called("L", localTitle(64, shortHold)),
	}
	list[1].own = []*peer{{name: "channel", title: "a Go channel", open: openChannel}}
	if !s.quick {
		long := handoffBy(1, 64, 64, time.Second, bar{figure: 5, limit: 1, counted: true}).called("L", localTitle(64, time.Second))
		long.rounds = 1 // of two minutes for each peer
		list = append(list, long)
		for _, n := range []int{1, 8, 1000} {
			list = append(list, handoffBy(1, n, n, 0).called("L", localTitle(n, 0)))
		}
	}
	list = append(list, crowd(bar{figure: 0, against: zkLockName, least: true, limit: 10}, bar{figure: 1, least: true, limit: 0.95},
		bar{figure: 2, limit: longestWait.Seconds()}))
	for _, n := range s.crowds {
		times := 1.2 // of zk.Lock: a client leaves and joins in one transaction
		if n == 16 {
			times = 1.6
		}
		e := handoffBy(1, n, perService, 0,
			bar{figure: 0, against: zkLockName, least: true, limit: times}, bar{figure: 6, limit: 1.1, counted: !s.quick}).called("M", strictTitle(n, perService))
		e.role = strictly
		list = append(list, e)
	}
	kept := freeRole("N", "a lock that is kept, taken again by one client"+loopback, keeping,
		bar{figure: 0, limit: 3e-6}, bar{figure: 1, limit: 0.5, counted: true})
	return append(list, kept, ask(bar{figure: 0, against: zkLockName, limit: 1.5}))
}

// called is the experiment under another letter and title, among the Go locks on ZooKeeper.
func (e *experiment) called(workload, title string) *experiment {
	e.workload, e.title, e.takes = workload, title, goLocks
	return e
}

// localRoles are Holdfast's, beside those of other locks than mutexes.
var localRoles = map[string]role{
	strictly: {title: "Holdfast, no window", open: openTaking(func(c *lock.Client, name string) take {
		return held(c.Mutex(name, lock.WithLocalWindow(0)).Lock)
	})},
	apart: {title: "Holdfast, an entry each", open: openTaking(func(c *lock.Client, name string) take {
		// What asks for different things shares no entry.
		own := map[string]string{"contender": strconv.FormatInt(contenders.Add(1), 10)}
		return held(c.Mutex(name, lock.WithMetadata(own)).Lock)
	})},
	keeping: {title: "Holdfast, kept", open: openTaking(func(c *lock.Client, name string) take {
		return held(c.Mutex(name, lock.WithIdle(keepFor)).Lock)
	})},
}

// contenders that have an entry each are numbered.
var contenders atomic.Int64

// crowd is workload M: so many clients of so many goroutines each, which all want one lock.
func crowd(bars ...bar) *experiment {
	e := &experiment{
		workload: "M", title: fmt.Sprintf("handoff among %d clients of %d goroutines each"+loopback, services, perService), bars: bars, takes: goLocks,
		rounds:  2,
		figures: []figure{{"handoffs", perSecond}, {"Jain's index of the clients", decimals}, {"99.9th percentile of the wait", milliseconds}, {"requests", decimals}},
	}
	e.prepare = func(ctx context.Context, b *bench, p *peer) (trial, error) {
		s, err := openAll(ctx, p, b.at, services)
		if err != nil {
			return nil, err
		}
		return &crowdTrial{b, s}, nil
	}
	return e
}

type crowdTrial struct {
	*bench
	sessions
}

func (t *crowdTrial) close() error { return t.sessions.close() }

func (t *crowdTrial) round(ctx context.Context) ([]float64, error) {
	lasts := crowdTakes * t.window
	ctx, fail, done := t.guardFor(ctx, patience+lasts)
	defer done()
	path := t.newPath()
	before, err := t.spent(ctx, t.sessions...)
	if err != nil {
		return nil, err
	}
	turns := make([]float64, services)              // of each client
	waits := make([][]float64, services*perService) // of each goroutine, in seconds
	inside := make(chan struct{}, 1)                // full while one is
	start := time.Now()
	err = together(services*perService, func(i int) error {
		l := t.sessions[i%services].locker(path)
		for time.Since(start) < lasts {
			asked := time.Now()
			if err := l.lock(ctx); err != nil {
				fail(err)
				return err
			}
			select {
			case inside <- struct{}{}:
			default:
				fail(errTwo)
				return errTwo
			}
			turns[i%services]++
			waits[i] = append(waits[i], time.Since(asked).Seconds())
			<-inside
			if err := l.unlock(); err != nil {
				fail(err)
				return err
			}
		}
		return nil
	})
	took := time.Since(start)
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	after, err := t.spent(ctx, t.sessions...)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(waits...)
	requests, _, _, _ := after.per(len(all), before)
	return []float64{float64(len(all)) / took.Seconds(), jain(turns), quantile(all, 0.999), requests}, settle(ctx, t.sessions...)
}

// jain is Jain's index of fairness: 1 if all have the same, 1/n if one has all.
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

// channel has locks that are Go channels: what the runtime takes to wake the next goroutine.
type channel struct{ locks sync.Map }

func openChannel(context.Context, string) (session, error) { return new(channel), nil }

func (s *channel) counts() zkserver.Counts { return zkserver.Counts{} }
func (s *channel) close() error            { return nil }

func (s *channel) locker(path string) locker {
	free, _ := s.locks.LoadOrStore(path, make(chan struct{}, 1))
	return channelLocker(free.(chan struct{}))
}

type channelLocker chan struct{}

func (l channelLocker) lock(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l channelLocker) unlock() error {
	<-l
	return nil
}
