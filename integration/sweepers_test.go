package integration_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/reaper"
)

// sweeper sweeps continuously, until the end of the test or until stop.
type sweeper struct {
	sweeps atomic.Int64 // number of complete sweeps
	stop   func()       // also waits for the running sweep
}

// sweeper starts a reaper that sweeps every half a second.
func (b *bench) sweeper() *sweeper {
	b.Helper()
	c, err := b.dialReaper(b.ctx)
	iferr.Fatal(b, err)
	b.Cleanup(func() {
		iferr.Error(b, c.Close())
	})
	r, err := reaper.New(c, b.sweeping("sweeper"))
	iferr.Fatal(b, err)
	return b.sweepWith(r.Sweep)
}

// newcomers starts sweeps like those of a scheduled reaper --once: each sweep has a new client,
// which knows nothing of earlier sweeps.
func (b *bench) newcomers() *sweeper {
	return b.sweepWith(func(ctx context.Context) (reaper.Report, error) { return b.sweepOnce(ctx, b.sweeping("newcomer")) })
}

func (b *bench) sweepWith(sweep func(context.Context) (reaper.Report, error)) *sweeper {
	ctx, cancel := context.WithCancel(b.ctx)
	s := new(sweeper)
	var done sync.WaitGroup
	s.stop = func() {
		cancel()
		done.Wait()
	}
	done.Go(func() {
		pace := time.NewTicker(500 * time.Millisecond) // wall clock: leaves time for the rest of the test
		defer pace.Stop()
		for ctx.Err() == nil {
			// A sweep that fails is repeated.
			if report, err := sweep(ctx); err == nil && report.Complete {
				s.sweeps.Add(1)
			}
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		}
	})
	b.Cleanup(s.stop)
	return s
}

// sweepOnce makes one sweep with a new client.
func (b *bench) sweepOnce(ctx context.Context, o reaper.Options) (report reaper.Report, err error) {
	c, err := b.dialReaper(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r, err := reaper.New(c, o)
	if err != nil {
		return report, err
	}
	return r.Sweep(ctx)
}

// awaitSweeps waits until each sweeper has begun a new sweep and completed it.
func (b *bench) awaitSweeps(sweepers ...*sweeper) {
	b.Helper()
	for _, s := range sweepers {
		enough := s.sweeps.Load() + 2 // the sweep that completes next may have begun before
		b.eventually("a whole sweep", func() bool { return s.sweeps.Load() >= enough })
	}
}

func (b *bench) dialReaper(ctx context.Context) (*lock.Client, error) {
	return lock.Dial(ctx, b.servers, lock.WithRoot(b.root), lock.WithPolicies(b.policies(longTTL, time.Second)), lock.WithSessionTimeout(longSession))
}

// sweeping returns the options of a reaper with a lock of the given name.
func (b *bench) sweeping(name string) reaper.Options {
	return reaper.Options{Policies: b.policies(longTTL, time.Second), Lock: name}
}
