package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// Names of peers that only workload G has. They send the least requests that a sweep needs.
const (
	readsName  = "reads"
	singleName = "single"
)

// mostDeleted is the largest number of trees with which the rate of deletes is measured. More trees
// do not change the rate.
const mostDeleted = 10_000

// inFlight is the number of concurrent requests, the reaper's default.
const inFlight = reaper.DefaultConcurrency

// sweepOrphans is workload G: a sweep deletes locks with expired entries, flat below the root or
// nested in directories.
func sweepOrphans(trees int, how string) *experiment {
	f := &forest{trees: trees, nested: how == "nested", ttl: time.Millisecond}
	return &experiment{
		table: table{"G", fmt.Sprintf("%d orphaned lock trees, %s", trees, how), []figure{
			{"scan: trees", perSecond}, {"deletes: nodes", perSecond}, {"sweep: trees", perSecond}, {"requests, for each tree", decimals},
			{"transactions, for each tree", thousandths}, {"peak heap", mebibytes}, {"above the listing", mebibytes},
		}, []bar{
			{Figure: 0, Against: readsName, Least: true, Limit: 0.9},
			{Figure: 1, Against: singleName, Least: true, Limit: 10},
			{Figure: 4, Limit: 0.02, Counted: true},
			{Figure: 6, Limit: 64 << 20, Counted: true},
		}},
		own: []*peer{
			{Name: readsName, Title: "bare pipelined reads", Bare: true},
			{Name: singleName, Title: "single deletes, pipelined", Bare: true},
		},
		takes: func(p *peer) bool { return p.Name == holdfastName || p.Name == readsName || p.Name == singleName },
		prepare: func(ctx context.Context, s *site, p *peer) (trial, error) {
			if p.Name == holdfastName {
				w, err := openSweeper(ctx, s, f, policy.MinOrphanAfter)
				return trial{w.orphans, w.close}, err
			}
			client, err := openPlain(ctx, s.at)
			if err != nil {
				return trial{}, err
			}
			measure := s.reads
			if p.Name == singleName {
				measure = s.singles
			}
			return trial{func(ctx context.Context) (turn, error) { return measure(ctx, f, client) }, client.hangUp}, nil
		},
	}
}

// sweepLive is workload H: a sweep of live entries, and a second one that knows the entries from
// the first.
func sweepLive(trees int, ttl time.Duration, bars ...bar) *experiment {
	f := &forest{trees: trees, ttl: ttl}
	return &experiment{
		table: table{"H", fmt.Sprintf("%d live locks with a TTL of %v, swept again at once", trees, ttl), []figure{
			{"first sweep: locks", perSecond}, {"requests, for each", decimals}, {"the next: locks", perSecond}, {"its requests, for each", decimals}, {"kept in memory, for each lock", wholeBytes},
		}, bars},
		takes: holdfastAlone,
		prepare: func(ctx context.Context, s *site, p *peer) (trial, error) {
			w, err := openSweeper(ctx, s, f, policy.DefaultOrphanAfter)
			return trial{w.live, w.close}, err
		},
	}
}

// sweeper is a client for reapers that sweep a forest.
type sweeper struct {
	*forest
	*site
	zkserver.Meter
	client   *lock.Client
	policies *policy.Set
}

func openSweeper(ctx context.Context, s *site, f *forest, orphanAfter time.Duration) (*sweeper, error) {
	f.at = s.newPath() // all trials of the experiment use this forest
	w := &sweeper{forest: f, site: s}
	var err error
	w.policies, err = policy.NewSet(policy.Rule{
		Match: policy.MustPattern("**"), OrphanAfter: orphanAfter,
		Policy: lock.Policy{Name: "all", TTL: 2 * sessionTimeout, Grace: lock.MinGrace},
	})
	if err != nil {
		return nil, err
	}
	w.client, err = lock.Dial(ctx, []string{s.at}, lock.WithRoot(f.at), lock.WithSessionTimeout(sessionTimeout),
		lock.WithPolicies(w.policies), lock.WithDialer(w.Dial))
	return w, err
}

func (w *sweeper) close() error { return errors.Join(w.client.Close(), w.fell(w.zookeeper.look.Conn)) }

// swept has the results of a sweep: its report, its seconds, and the cost for each tree.
type swept struct {
	reaper.Report
	took float64
	each cost
}

// sweep sweeps the forest with the reaper and returns the results. It fails if the reaper saw fewer
// locks than the forest has trees.
func (w *sweeper) sweep(ctx context.Context, r *reaper.Reaper) (done swept, err error) {
	done.each, err = w.costOf(ctx, sessions{{counts: w.Counts}}, func() (int, error) {
		start := time.Now()
		done.Report, err = r.Sweep(ctx)
		done.took = time.Since(start).Seconds()
		if err == nil && done.Total.Locks < w.trees {
			err = fmt.Errorf("a sweep saw %d locks of %d", done.Total.Locks, w.trees)
		}
		return w.trees, err
	})
	return done, err
}

// sweepAnew is like sweep, with a new reaper. If dry is set, the reaper deletes nothing.
func (w *sweeper) sweepAnew(ctx context.Context, dry bool) (swept, error) {
	r, err := reaper.New(w.client, reaper.Options{Policies: w.policies, DryRun: dry})
	if err != nil {
		return swept{}, err
	}
	return w.sweep(ctx, r)
}

// orphans runs one turn of workload G. It measures dry runs, the heap of a bare listing and of a
// sweep that deletes all trees, and the rate of deletes without a reaper.
func (w *sweeper) orphans(ctx context.Context) (turn, error) {
	if err := w.plant(ctx, w.bench); err != nil {
		return nil, err
	}
	var scans []float64
	for range w.passes() {
		scan, err := w.sweepAnew(ctx, true)
		if err != nil {
			return nil, err
		}
		scans = append(scans, scan.took)
	}
	listing, err := heapOf(func() error {
		_, _, err := admin.New(w.client).Children(ctx, admin.New(w.client).Root())
		return err
	})
	if err != nil {
		return nil, err
	}
	var done swept
	peak, err := heapOf(func() (err error) {
		done, err = w.sweepAnew(ctx, false)
		return err
	})
	if err != nil {
		return nil, err
	}
	if want := w.nodes(); done.Total.Deleted != want {
		return nil, fmt.Errorf("a sweep deleted %d nodes of %d: %v", done.Total.Deleted, want, &done.Report)
	}
	w.planted = false
	deletes, err := w.deletes(ctx, w.forest, w.deleteAll)
	n := float64(w.trees)
	return turn{n / median(scans), deletes, n / done.took, done.each.requests, done.each.transactions, peak, peak - listing}, err
}

// deleteAll deletes the nodes of a forest in transactions, as the reaper does.
func (w *sweeper) deleteAll(ctx context.Context, f *forest) error {
	const atOnce, treesEach = 4, reaper.DefaultBatch / 3
	return spread(atOnce, f.trees, treesEach, func(first, end int) error {
		var nodes []admin.Deletion
		for i := first; i < end; i++ {
			for _, node := range f.tree(i).nodes() {
				nodes = append(nodes, admin.Deletion{Path: node})
			}
		}
		return admin.New(w.client).Delete(ctx, nodes)
	})
}

// live runs one turn of workload H. It measures two sweeps of live locks by one reaper, and the
// memory that the reaper keeps.
func (w *sweeper) live(ctx context.Context) (turn, error) {
	if err := w.plant(ctx, w.bench); err != nil {
		return nil, err
	}
	r, err := reaper.New(w.client, reaper.Options{Policies: w.policies})
	if err != nil {
		return nil, err
	}
	empty := heap()
	var figures turn
	for range 2 {
		done, err := w.sweep(ctx, r)
		if err != nil {
			return nil, err
		}
		if done.Total.Live < w.trees || done.Total.Deleted > 0 {
			return nil, fmt.Errorf("a sweep of %d live locks: %v", w.trees, &done.Report)
		}
		figures = append(figures, float64(w.trees)/done.took, done.each.requests)
	}
	kept := heap() - empty
	runtime.KeepAlive(r)
	return append(figures, kept/float64(w.trees)), nil
}

// passes returns how often a turn reads a forest. The first read after planting is slower, so a
// small forest is read several times.
func (f *forest) passes() int {
	if f.trees > mostDeleted {
		return 1 // one read of a large forest takes long enough
	}
	return 5
}

// reads runs one turn of the bare reads: it lists each tree and reads its entry, and does nothing
// else.
func (s *site) reads(ctx context.Context, f *forest, client *plain) (turn, error) {
	if err := f.plant(ctx, s.bench); err != nil {
		return nil, err
	}
	var took []float64
	var peak float64
	each, err := s.costOf(ctx, sessions{{counts: client.Counts}}, func() (n int, err error) {
		peak, err = heapOf(func() (err error) {
			took, err = timed(f.passes(), func(int) error { return f.read(client.Conn) })
			return err
		})
		return f.passes() * f.trees, err
	})
	return turn{float64(f.trees) / median(took), none, none, each.requests, each.transactions, peak, none}, err
}

// singles measures how fast the nodes of a forest are deleted one by one, with many requests in
// flight.
func (s *site) singles(ctx context.Context, f *forest, client *plain) (turn, error) {
	rate, err := s.deletes(ctx, f, func(_ context.Context, f *forest) error {
		return spread(inFlight, f.trees, 1, func(i, _ int) error {
			for _, node := range f.tree(i).nodes() {
				if err := client.Delete(node, 0); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return turn{none, rate, none, none, none, none, none}, err
}

// deletes returns the rate, in nodes per second, at which deleteTrees deletes the trees of a forest
// like the given one. One run takes tenths of a second, so the rate is the median of several runs.
func (b *bench) deletes(ctx context.Context, like *forest, deleteTrees func(context.Context, *forest) error) (float64, error) {
	const passes = 3
	var rates []float64
	for range passes {
		f := &forest{at: b.newPath(), trees: min(like.trees, mostDeleted), nested: like.nested, ttl: time.Hour}
		if err := f.plant(ctx, b); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := deleteTrees(ctx, f); err != nil {
			return 0, err
		}
		rates = append(rates, float64(3*f.trees)/time.Since(start).Seconds())
		if err := f.fellDirs(b.zookeeper.look.Conn); err != nil {
			return 0, err
		}
	}
	return median(rates), nil
}

// heapOf runs f, and returns by how many bytes the heap's peak exceeded its size before. Garbage
// counts until it is collected.
func heapOf(f func() error) (peak float64, err error) {
	before := heap()
	var done atomic.Bool
	var looking sync.WaitGroup
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}} // including garbage
	looking.Go(func() {
		for last := false; !last; time.Sleep(5 * time.Millisecond) {
			last = done.Load()
			metrics.Read(sample)
			peak = max(peak, float64(sample[0].Value.Uint64())-before)
		}
	})
	err = f()
	done.Store(true)
	looking.Wait()
	return peak, err
}
