package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// Limits that a sweep is held against, beside the peers of the other workloads.
const (
	readsName  = "reads"
	singleName = "single"
)

var sweepBars = []bar{
	{figure: 0, against: readsName, least: true, limit: 0.9},
	{figure: 1, against: singleName, least: true, limit: 10},
	{figure: 4, limit: 0.02, counted: true},
	{figure: 6, limit: 64 << 20, counted: true},
}

// mostDeleted is how many trees are deleted, at most, where only the rate is asked
// for: it does not change with more.
const mostDeleted = 10_000

// What the limits have in flight at once: as the reaper has by default, requests
// and transactions of so many nodes.
const (
	inFlight        = reaper.DefaultConcurrency
	batchesInFlight = 4
	batch           = reaper.DefaultBatch
)

// sweepOrphans is workload G: locks whose holders died, flat below the root or in
// directories, are swept away.
func sweepOrphans(trees int, nested bool, bars ...bar) *experiment {
	title := fmt.Sprintf("%d orphaned lock trees, flat", trees)
	if nested {
		title = fmt.Sprintf("%d orphaned lock trees, nested", trees)
	}
	f := &forest{trees: trees, nested: nested, ttl: time.Millisecond}
	return &experiment{
		workload: "G", title: title, bars: bars,
		figures: []figure{
			{"scan: trees", perSecond}, {"deletes: nodes", perSecond}, {"sweep: trees", perSecond}, {"requests, for each tree", decimals},
			{"transactions, for each tree", thousandths}, {"peak heap", mebibytes}, {"above the listing", mebibytes},
		},
		own: []*peer{
			{name: readsName, title: "bare pipelined reads", bare: true},
			{name: singleName, title: "single deletes, pipelined", bare: true},
		},
		takes: func(p *peer) bool { return p.name == holdfastName || p.name == readsName || p.name == singleName },
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			switch p.name {
			case readsName:
				s, err := openPlain(ctx, b.server.Addr())
				return &readsTrial{f, b, s}, err
			case singleName:
				s, err := openPlain(ctx, b.server.Addr())
				return &singleTrial{f, b, s}, err
			}
			s, err := openSweeper(ctx, b, f, policy.MinOrphanAfter)
			return &orphansTrial{s}, err
		},
	}
}

// sweepLive is workload H: nothing is expired, and an earlier sweep has seen that.
func sweepLive(trees int, ttl time.Duration, bars ...bar) *experiment {
	f := &forest{trees: trees, ttl: ttl}
	return &experiment{
		workload: "H", title: fmt.Sprintf("%d live locks with a TTL of %v, swept again at once", trees, ttl), bars: bars, takes: keeps,
		figures: []figure{
			{"first sweep: locks", perSecond}, {"requests, for each", decimals}, {"the next: locks", perSecond}, {"its requests, for each", decimals}, {"kept in memory, for each lock", wholeBytes},
		},
		prepare: func(ctx context.Context, b *bench, p *peer) (trial, error) {
			s, err := openSweeper(ctx, b, f, policy.DefaultOrphanAfter)
			return &liveTrial{s}, err
		},
	}
}

var (
	thousandths = unit{1, "%.3f"}
	mebibytes   = unit{1.0 / (1 << 20), "%.1f MiB"} // of bytes
)

// sweeper is a client that locks are swept with.
type sweeper struct {
	*forest
	*bench
	zkserver.Meter
	client   *lock.Client
	policies *policy.Set
}

func openSweeper(ctx context.Context, b *bench, f *forest, orphanAfter time.Duration) (*sweeper, error) {
	everything, err := policy.ParsePattern("**")
	if err != nil {
		return nil, err
	}
	s := &sweeper{forest: f, bench: b}
	s.policies, err = policy.NewSet(policy.Policy{
		Name: "all", Match: everything, OrphanAfter: orphanAfter,
		Policy: lock.Policy{TTL: 2 * sessionTimeout, Grace: lock.MinGrace},
	})
	if err != nil {
		return nil, err
	}
	s.client, err = lock.Dial(ctx, []string{b.server.Addr()}, lock.WithRoot(f.root(b)), lock.WithSessionTimeout(sessionTimeout),
		lock.WithPolicies(s.policies), lock.WithDialer(s.Dial))
	return s, err
}

func (s *sweeper) close() error { return errors.Join(s.client.Close(), s.fell(s.zookeeper.look.conn)) }

// reaper returns a reaper that has not swept yet.
func (s *sweeper) reaper(dry bool) (*reaper.Reaper, error) {
	return reaper.New(s.client, reaper.Options{Policies: s.policies, DryRun: dry})
}

// sweep sweeps all trees and returns how long that took.
func (s *sweeper) sweep(ctx context.Context, r *reaper.Reaper) (reaper.Report, float64, error) {
	start := time.Now()
	report, err := r.Sweep(ctx)
	took := time.Since(start).Seconds()
	if err == nil && report.Total.Locks < s.trees {
		err = fmt.Errorf("a sweep saw %d locks of %d", report.Total.Locks, s.trees)
	}
	return report, took, err
}

type orphansTrial struct{ *sweeper }

func (t *orphansTrial) round(ctx context.Context) ([]float64, error) {
	if err := t.plant(ctx, t.bench); err != nil {
		return nil, err
	}
	scan, err := t.medianPass(func() (float64, error) {
		dry, err := t.reaper(true)
		if err != nil {
			return 0, err
		}
		_, took, err := t.sweeper.sweep(ctx, dry)
		return took, err
	})
	if err != nil {
		return nil, err
	}
	_, listing, err := heapOf(func() (int, error) {
		names, _, err := admin.New(t.client).Children(ctx, admin.New(t.client).Root())
		return len(names), err
	})
	if err != nil {
		return nil, err
	}
	wet, err := t.reaper(false)
	if err != nil {
		return nil, err
	}
	before, err := t.spentOn(ctx, &t.Meter)
	if err != nil {
		return nil, err
	}
	var took float64
	report, peak, err := heapOf(func() (report reaper.Report, err error) {
		report, took, err = t.sweeper.sweep(ctx, wet)
		return report, err
	})
	if err != nil {
		return nil, err
	}
	if want := t.nodes(); report.Total.Deleted != want {
		return nil, fmt.Errorf("a sweep deleted %d nodes of %d: %v", report.Total.Deleted, want, &report)
	}
	t.planted = false
	after, err := t.spentOn(ctx, &t.Meter)
	if err != nil {
		return nil, err
	}
	requests, transactions, _, _ := after.per(t.trees, before)
	deletes, err := t.bench.deletes(ctx, t.forest, t.batches)
	return []float64{float64(t.trees) / scan, deletes, float64(t.trees) / took, requests, transactions, peak, peak - listing}, err
}

// batches deletes the nodes of a forest as the reaper does, in transactions.
func (t *orphansTrial) batches(ctx context.Context, f *forest) error {
	var nodes []admin.Deletion
	for i := range f.trees {
		at, entry := f.tree(i)
		nodes = append(nodes, admin.Deletion{Path: entry}, admin.Deletion{Path: f.anchor(i)}, admin.Deletion{Path: at})
	}
	const whole = batch / 3 * 3 // trees
	return together(batchesInFlight, func(i int) error {
		for at := i * whole; at < len(nodes); at += batchesInFlight * whole {
			if err := admin.New(t.client).Delete(ctx, nodes[at:min(at+whole, len(nodes))]); err != nil {
				return err
			}
		}
		return nil
	})
}

// deletesPasses is how often a forest is deleted in a turn: it takes some tenths of a
// second only.
const deletesPasses = 3

// deletes returns how many nodes of locks, with their anchors, are deleted each second, the directories
// left aside, by what deletes all trees of a forest like this one.
func (b *bench) deletes(ctx context.Context, like *forest, deleteTrees func(context.Context, *forest) error) (float64, error) {
	conn := b.zookeeper.look.conn
	var rates []float64
	for range deletesPasses {
		f := &forest{trees: min(like.trees, mostDeleted), nested: like.nested, ttl: time.Hour}
		if err := f.plant(ctx, b); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := deleteTrees(ctx, f); err != nil {
			return 0, err
		}
		rates = append(rates, float64(3*f.trees)/time.Since(start).Seconds())
		f.planted = false
		if err := errors.Join(f.fellDirs(conn), f.fell(conn)); err != nil {
			return 0, err
		}
	}
	return median(rates), nil
}

// readsTrial lists each tree and reads its entry, and does nothing with them.
type readsTrial struct {
	*forest
	*bench
	*plain
}

func (t *readsTrial) close() error { return t.plain.close() }

func (t *readsTrial) round(ctx context.Context) ([]float64, error) {
	if err := t.plant(ctx, t.bench); err != nil {
		return nil, err
	}
	before, err := t.spentOn(ctx, &t.Meter)
	if err != nil {
		return nil, err
	}
	took, peak, err := heapOf(func() (float64, error) {
		return t.medianPass(func() (float64, error) {
			start := time.Now()
			read, err := t.read(t.conn)
			if err == nil && read != t.trees {
				err = fmt.Errorf("read %d entries of %d", read, t.trees)
			}
			return time.Since(start).Seconds(), err
		})
	})
	if err != nil {
		return nil, err
	}
	after, err := t.spentOn(ctx, &t.Meter)
	requests, transactions, _, _ := after.per(t.passes()*t.trees, before)
	return []float64{float64(t.trees) / took, math.NaN(), math.NaN(), requests, transactions, peak, math.NaN()}, err
}

// singleTrial deletes nodes one by one, many of these requests at once.
type singleTrial struct {
	*forest
	*bench
	*plain
}

func (t *singleTrial) close() error { return t.plain.close() }

func (t *singleTrial) round(ctx context.Context) ([]float64, error) {
	rate, err := t.bench.deletes(ctx, t.forest, t.singly)
	none := math.NaN()
	return []float64{none, rate, none, none, none, none, none}, err
}

// singly deletes the nodes of a forest.
func (t *singleTrial) singly(_ context.Context, f *forest) error {
	return together(inFlight, func(first int) error {
		for i := first; i < f.trees; i += inFlight {
			at, entry := f.tree(i)
			for _, node := range []string{entry, f.anchor(i), at} {
				if err := t.conn.Delete(node, 0); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

type liveTrial struct{ *sweeper }

func (t *liveTrial) round(ctx context.Context) ([]float64, error) {
	if err := t.plant(ctx, t.bench); err != nil {
		return nil, err
	}
	r, err := t.reaper(false)
	if err != nil {
		return nil, err
	}
	empty := heap()
	var figures []float64
	for range 2 {
		before, err := t.spentOn(ctx, &t.Meter)
		if err != nil {
			return nil, err
		}
		report, took, err := t.sweeper.sweep(ctx, r)
		if err != nil {
			return nil, err
		}
		if report.Total.Live < t.trees || report.Total.Deleted > 0 {
			return nil, fmt.Errorf("a sweep of %d live locks: %v", t.trees, &report)
		}
		after, err := t.spentOn(ctx, &t.Meter)
		if err != nil {
			return nil, err
		}
		requests, _, _, _ := after.per(t.trees, before)
		figures = append(figures, float64(t.trees)/took, requests)
	}
	kept := heap() - empty
	runtime.KeepAlive(r)
	return append(figures, kept/float64(t.trees)), nil
}

// spentOn tells what has been spent so far by one client: its requests, and all
// transactions.
func (b *bench) spentOn(ctx context.Context, m *zkserver.Meter) (cost, error) {
	transactions, err := b.on.transactions(ctx)
	return cost{transactions: transactions, client: m.Counts()}, err
}

// heapOf runs f, and returns by how many bytes the heap was larger at its peak
// than before; what is garbage already counts until it is collected.
func heapOf[T any](f func() (T, error)) (result T, peak float64, err error) {
	before := heap()
	look := func() { peak = max(peak, heapNow()-before) }
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				look()
			case <-done:
				return
			}
		}
	})
	result, err = f()
	close(done)
	looking.Wait()
	look()
	return result, peak, err
}

// heapNow is how many bytes objects take up on the heap, garbage included.
func heapNow() float64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}
