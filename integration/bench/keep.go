package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

const (
	keepers = 64  // goroutines that take the locks, and give them back
	looks   = 100 // at the holds, in a TTL
	looked  = 100 // holds that are looked at each time: to look costs CPU time too
)

// keep is workload E: one client takes n locks and keeps them for a time, of which
// each round measures its share. A lost hold ends the run with an error: what loses
// locks is no result.
func keep(n int, total time.Duration, rounds int, bars ...bar) *experiment {
	window := total / time.Duration(rounds)
	ttl := min(lock.DefaultTTL, window).Truncate(time.Millisecond) // renewals are due three times in a round
	return &experiment{
		workload: "E", title: fmt.Sprintf("%d holds kept by one client for %v, renewed with a TTL of %v, loopback", n, total, ttl), bars: bars, takes: keeps,
		figures: []figure{
			{"heap, per hold", wholeBytes}, {"goroutines, per hold", decimals}, {"holds, per transaction and third of the TTL", decimals},
			{"CPU time, per renewal", microseconds}, {"CPU time, of one core", percent}, {"of the TTL left, at least", percent}, {"watches at the server", decimals},
		},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			client, err := lock.Dial(ctx, []string{b.server.Addr()},
				lock.WithRoot(b.newPath()), lock.WithSessionTimeout(sessionTimeout), lock.WithTTL(ttl))
			if err != nil {
				return nil, err
			}
			t := &keepTrial{bench: b, client: client, window: window, ttl: ttl, holds: make([]*lock.Hold, n)}
			if err := t.take(ctx); err != nil {
				return nil, errors.Join(err, t.close())
			}
			return t, nil
		},
	}
}

// keeps takes the peer that renews what it holds, and has a reaper. The others' locks
// live and die with their sessions, or with their time.
func keeps(p *peer) bool { return p.name == holdfastName }

var (
	wholeBytes   = unit{1, "%.0f B"}
	microseconds = unit{1e6, "%.1f µs"} // of seconds
	percent      = unit{100, "%.1f %%"}
)

type keepTrial struct {
	*bench
	client      *lock.Client
	window, ttl time.Duration
	holds       []*lock.Hold

	// Without holds.
	heap       float64
	goroutines float64
}

// take takes the locks. What the client needs to be busy, it has before the memory
// is looked at that it needs to hold.
func (t *keepTrial) take(ctx context.Context) error {
	err := each(ctx, keepers, func(ctx context.Context, i int) error {
		return t.client.Mutex(fmt.Sprintf("busy-%d", i)).Do(ctx, func(context.Context) error { return nil })
	})
	if err != nil {
		return err
	}
	t.heap, t.goroutines = heap(), float64(runtime.NumGoroutine())
	return each(ctx, len(t.holds), func(ctx context.Context, i int) (err error) {
		t.holds[i], err = t.client.Mutex(fmt.Sprintf("lock-%d", i)).Lock(ctx)
		return err
	})
}

// each calls f for 0 to n-1, some at a time, until one fails.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	limit := patience * time.Duration(1+n/10_000)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%d locks are not done in %v", n, limit))
	defer cancel()
	return together(keepers, func(k int) error {
		for i := k; i < n; i += keepers {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := f(ctx, i); err != nil {
				cancel()
				return err
			}
		}
		return nil
	})
}

// close gives the locks back that were taken.
func (t *keepTrial) close() error {
	err := each(context.Background(), len(t.holds), func(_ context.Context, i int) error {
		if t.holds[i] == nil {
			return nil
		}
		return t.holds[i].Unlock()
	})
	return errors.Join(err, t.client.Close())
}

func (t *keepTrial) round(ctx context.Context) ([]float64, error) {
	before, err := t.spent(ctx)
	if err != nil {
		return nil, err
	}
	start, busy, renewals := time.Now(), cpuTime(), t.client.Stats().Renewals
	goroutines, left, err := t.watch(ctx)
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	busy, renewals = cpuTime()-busy, t.client.Stats().Renewals-renewals
	after, err := t.spent(ctx)
	if err != nil {
		return nil, err
	}
	stats, err := t.server.Mntr(ctx)
	if err != nil {
		return nil, err
	}
	watches, err := strconv.ParseFloat(stats["zk_watch_count"], 64)
	n := float64(len(t.holds))
	thirds := took.Seconds() / (t.ttl.Seconds() / 3)
	return []float64{
		(heap() - t.heap) / n, (goroutines - t.goroutines) / n, n * thirds / float64(after.transactions-before.transactions),
		busy.Seconds() / float64(renewals), busy.Seconds() / took.Seconds(), left.Seconds() / t.ttl.Seconds(), watches,
	}, err
}

// watch looks at the goroutines and at some of the holds, in turn, while a round
// lasts, and at all holds in the end. It returns the median of the goroutines and the
// shortest time that a hold was sure to last without another renewal.
func (t *keepTrial) watch(ctx context.Context) (goroutines float64, left time.Duration, err error) {
	left = t.ttl
	var running []float64
	ticker := time.NewTicker(t.ttl / looks)
	defer ticker.Stop()
	stride := max(1, len(t.holds)/looked)
	for start, turn := time.Now(), 0; time.Since(start) < t.window; turn++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		}
		running = append(running, float64(runtime.NumGoroutine()))
		for i := turn % stride; i < len(t.holds); i += stride {
			left = min(left, t.holds[i].Remaining())
		}
	}
	var lost []error
	for _, h := range t.holds {
		left = min(left, h.Remaining())
		if err := h.Err(); err != nil {
			lost = append(lost, err)
		}
	}
	if len(lost) > 0 {
		return 0, 0, fmt.Errorf("%d of %d holds were lost, such as %w", len(lost), len(t.holds), lost[0])
	}
	return median(running), left, nil
}

// heap is how many bytes of memory are in use.
func heap() float64 {
	runtime.GC()
	runtime.GC() // and what a finalizer held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// cpuTime is how long this process has used a CPU.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
