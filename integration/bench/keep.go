package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
)

const (
	keepers = 64  // goroutines that take the locks and release them
	looks   = 100 // checks of holds in the time of a TTL
	looked  = 100 // holds in each check, because checks cost CPU time too
)

// keep is workload E: one client holds n locks for a time; each round measures a part of that time.
// A lost hold fails the run.
func keep(n int, total time.Duration, rounds int, bars ...bar) *experiment {
	return keeping(n, total, rounds, (*keeper).round, func(ttl time.Duration) table {
		return table{"E", fmt.Sprintf("%d holds kept by one client for %v, renewed with a TTL of %v, loopback", n, total, ttl), []figure{
			{"heap, per hold", wholeBytes}, {"goroutines, per hold", decimals}, {"holds, per transaction and third of the TTL", decimals},
			{"CPU time, per renewal", microseconds}, {"CPU time, of one core", percent}, {"of the TTL left, at least", percent}, {"watches at the server", decimals},
		}, bars}
	})
}

// keepBusy is like keep, while other goroutines of the client lock and unlock a lock each.
func keepBusy(n int, total time.Duration, rounds int, bars ...bar) *experiment {
	return keeping(n, total, rounds, (*keeper).busyRound, func(ttl time.Duration) table {
		return table{"E", fmt.Sprintf("%d holds with a TTL of %v, kept beside %d busy goroutines of the client, loopback", n, ttl, keepers), []figure{
			{"lock + unlock", perSecond}, {"transactions, per lock + unlock and renewal", decimals}, {"of the TTL left, at least", percent},
		}, bars}
	})
}

// keeping is like keep, with any round and any table, which may name the TTL.
func keeping(n int, total time.Duration, rounds int, round func(*keeper, context.Context) (turn, error), of func(ttl time.Duration) table) *experiment {
	window := total / time.Duration(rounds)
	ttl := min(lock.DefaultTTL, window).Truncate(time.Millisecond) // a round is long enough for three renewals
	return &experiment{
		table: of(ttl), takes: holdfastAlone,
		prepare: func(ctx context.Context, s *site, _ *peer) (trial, error) {
			k, err := newKeeper(ctx, s, n, window, ttl)
			if err != nil {
				return trial{}, err
			}
			return trial{func(ctx context.Context) (turn, error) { return round(k, ctx) }, k.close}, nil
		},
	}
}

// busyRound is a round beside busy goroutines.
func (k *keeper) busyRound(ctx context.Context) (turn, error) {
	var left, took time.Duration
	var cycles atomic.Int64
	each, err := k.costOf(ctx, nil, func() (int, error) {
		start, renewals := time.Now(), k.client.Stats().Renewals
		busy, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			ended <- wait.All(keepers, func(i int) error {
				m := k.client.Mutex(fmt.Sprintf("busy-%d", i))
				for busy.Err() == nil {
					if err := m.Do(ctx, func(context.Context) error { return nil }); err != nil {
						return err
					}
					cycles.Add(1)
				}
				return nil
			})
		}()
		_, least, err := k.watch(ctx)
		end()
		err = errors.Join(err, <-ended)
		left, took = least, time.Since(start)
		return int(cycles.Load() + int64(k.client.Stats().Renewals-renewals)), err
	})
	return turn{float64(cycles.Load()) / took.Seconds(), each.transactions, left.Seconds() / k.ttl.Seconds()}, err
}

// newKeeper returns a keeper that holds n locks.
func newKeeper(ctx context.Context, s *site, n int, window, ttl time.Duration) (*keeper, error) {
	client, err := lock.Dial(ctx, []string{s.at}, lock.WithRoot(s.newPath()), lock.WithSessionTimeout(sessionTimeout), lock.WithTTL(ttl))
	if err != nil {
		return nil, err
	}
	k := &keeper{site: s, client: client, window: window, ttl: ttl, holds: make([]*lock.Hold, n)}
	if err := k.take(ctx); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

// closeHolding measures the end of a client that holds n locks: Close releases them all.
func closeHolding(n int, bars ...bar) *experiment {
	return &experiment{
		table: table{"E", fmt.Sprintf("Close of a client with %d holds, loopback", n), []figure{
			{"time to close", milliseconds}, {"requests, per hold", decimals}, {"transactions, per hold", decimals},
		}, bars},
		takes: holdfastAlone,
		prepare: func(_ context.Context, s *site, p *peer) (trial, error) {
			round := func(ctx context.Context) (turn, error) {
				k, err := newKeeper(ctx, s, n, 0, lock.DefaultTTL)
				if err != nil {
					return nil, err
				}
				before, err := s.spentByAll(ctx)
				if err != nil {
					return nil, errors.Join(err, k.close())
				}
				start := time.Now()
				if err = k.client.Close(); err != nil {
					return nil, err
				}
				took := time.Since(start)
				after, err := s.spentByAll(ctx)
				each := after.per(n, before)
				return turn{took.Seconds(), each.requests, each.transactions}, err
			}
			return trial{round, func() error { return nil }}, nil
		},
	}
}

// keeper is a client that keeps locks.
type keeper struct {
	*site
	client      *lock.Client
	window, ttl time.Duration
	holds       []*lock.Hold

	// heap and goroutines are the values before the locks were taken.
	heap       float64
	goroutines float64
}

// take takes the locks. It first uses some locks and measures the heap, so that the heap's growth
// shows the memory of the holds.
func (k *keeper) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience*time.Duration(1+len(k.holds)/10_000))
	defer cancel()
	err := wait.All(keepers, func(i int) error {
		return k.client.Mutex(fmt.Sprintf("busy-%d", i)).Do(ctx, func(context.Context) error { return nil })
	})
	if err != nil {
		return err
	}
	k.heap, k.goroutines = heap(), float64(runtime.NumGoroutine())
	return spread(keepers, len(k.holds), 1, func(i, _ int) (err error) {
		k.holds[i], err = k.client.Mutex(fmt.Sprintf("lock-%d", i)).Lock(ctx)
		return err
	})
}

// close unlocks the locks and closes the client.
func (k *keeper) close() error {
	err := spread(keepers, len(k.holds), 1, func(i, _ int) error {
		if k.holds[i] == nil {
			return nil
		}
		return k.holds[i].Unlock()
	})
	return errors.Join(err, k.client.Close())
}

func (k *keeper) round(ctx context.Context) (turn, error) {
	var goroutines float64
	var took, busy, left time.Duration
	renewals := k.client.Stats().Renewals
	each, err := k.costOf(ctx, nil, func() (n int, err error) {
		start := time.Now()
		busy, renewals = cpuTime(), k.client.Stats().Renewals
		goroutines, left, err = k.watch(ctx)
		took, busy, renewals = time.Since(start), cpuTime()-busy, k.client.Stats().Renewals-renewals
		return len(k.holds), err
	})
	if err != nil {
		return nil, err
	}
	watches, err := k.zookeeper.watches(ctx)
	n := float64(len(k.holds))
	thirds := took.Seconds() / (k.ttl.Seconds() / 3)
	return turn{
		(heap() - k.heap) / n, (goroutines - k.goroutines) / n, thirds / each.transactions,
		busy.Seconds() / float64(renewals), busy.Seconds() / took.Seconds(), left.Seconds() / k.ttl.Seconds(), watches,
	}, err
}

// watch samples the number of goroutines and some holds during a round, and all holds at its end.
// It returns the median number of goroutines and the shortest remaining time of a hold, or an error
// if a hold was lost.
func (k *keeper) watch(ctx context.Context) (goroutines float64, left time.Duration, err error) {
	left = k.ttl
	var running []float64
	ticker := time.NewTicker(k.ttl / looks)
	defer ticker.Stop()
	stride := max(1, len(k.holds)/looked)
	for start, turn := time.Now(), 0; time.Since(start) < k.window; turn++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		}
		running = append(running, float64(runtime.NumGoroutine()))
		for i := turn % stride; i < len(k.holds); i += stride {
			left = min(left, k.holds[i].Remaining())
		}
	}
	for _, h := range k.holds {
		left = min(left, h.Remaining())
		if err := h.Err(); err != nil {
			return 0, 0, fmt.Errorf("a hold was lost: %w", err)
		}
	}
	return median(running), left, nil
}

// heap returns the number of bytes in use on the heap, without garbage.
func heap() float64 {
	runtime.GC()
	runtime.GC() // also frees the memory that finalizers released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are valid
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
