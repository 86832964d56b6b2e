package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// experiment is one workload under one condition, and one table.
type experiment struct {
	workload string // its letter
	title    string
	variant  string // of the servers; "": standalone
	figures  []figure
	bars     []bar
	turns    int // of each peer in a round, where they are short; 0: one
	rounds   int // at most, where they are long; 0: as many as there are
	takes    func(p *peer) bool
	role     string  // of the peers that have one of that name
	own      []*peer // that take part in this one only, beside those that were chosen
	prepare  func(ctx context.Context, b *bench, p *peer) (trial, error)
}

// trial is a peer's part in an experiment: connected, warm and ready.
type trial interface {
	// round measures once and returns the experiment's figures, in their order.
	round(ctx context.Context) ([]float64, error)
	close() error
}

// figure is a column of a table.
type figure struct {
	title string
	unit
}

// unit says how the values of a figure are written.
type unit struct {
	Scale  float64 `json:"scale"`
	Format string  `json:"format"`
}

var (
	decimals     = unit{1, "%.2f"}
	perSecond    = unit{1, "%.0f/s"}
	kilobytes    = unit{1e-3, "%.2f kB"} // of bytes
	milliseconds = unit{1e3, "%.3f ms"}  // of seconds
)

func (u unit) format(v float64) string { return fmt.Sprintf(u.Format, v*u.Scale) }

// bar is what Holdfast's median must reach: of a figure as such, of its ratio to a
// peer's, or of its ratio to Holdfast's own in another experiment.
type bar struct {
	figure  int    // index
	against string // name of a peer; "": none
	beside  string // title of another experiment of the same workload; "": none
	least   bool   // the limit is the least, and otherwise the most
	limit   float64
	counted bool // does not depend on how fast or busy the machine is: the exit status tells if it was missed
}

func all(*peer) bool       { return true }
func locks(p *peer) bool   { return !p.bare }
func goPeers(p *peer) bool { return p.open != nil }
func goLocks(p *peer) bool { return p.open != nil && !p.bare && p.start == nil } // on ZooKeeper

// tries takes the peers that can try a lock without waiting.
func tries(p *peer) bool { return p.name == holdfastName || p.start != nil }

// Titles that charts and bars refer to.
var (
	freeNear = "free lock, one client" + loopback
	freeFar  = free(freeNear).on(delayed).title

	freeAnewTitle = "free lock, another one each time, one client" + loopback
)

// asOften is the bar of handoffs where nothing else takes time.
var asOften = []bar{{figure: 0, against: zkLockName, least: true, limit: 1}}

// handoffBars are those of handoffs among n clients that hold for a time.
func (s size) handoffBars(n int, hold time.Duration) (bars []bar) {
	counted := !s.quick
	if hold == 0 {
		bars = append(bars, asOften...)
		bars = append(bars, bar{figure: 5, limit: 4.1, counted: counted})
		if n == mostOfAll {
			bars = append(bars, bar{figure: 3, against: zkLockName, limit: 0.40, counted: counted})
		}
		return bars
	}
	if n <= mostOfAll {
		bars = append(bars, bar{figure: 1, against: zkLockName, limit: 0.58})
	}
	bars = append(bars, bar{figure: 5, limit: 5.3, counted: counted})
	if n >= 16 {
		bars = append(bars, bar{figure: 3, limit: 1600, counted: counted})
	}
	if n > 16 {
		bars = append(bars, bar{figure: 3, beside: handoffTitle(16, hold), limit: 1.5, counted: counted})
	}
	return bars
}

// experiments returns all there are.
func experiments(s size) []*experiment {
	list := []*experiment{
		free(freeNear,
			bar{figure: 0, against: zkLockName, limit: 0.85}, bar{figure: 0, against: bareName, limit: 1.15}, bar{figure: 0, against: curatorName, limit: 0.85},
			bar{figure: 1, limit: 2, counted: true}, bar{figure: 2, limit: 2, counted: true}),
		free(freeNear).on(delayed, bar{figure: 0, against: zkLockName, limit: 0.72}),
		freeAnew(freeAnewTitle, bar{figure: 1, limit: 2, counted: true}, bar{figure: 2, limit: 2, counted: true}),
		many(64, bar{figure: 0, against: zkLockName, least: true, limit: 1.2}),
	}
	for _, n := range s.queues {
		list = append(list, handoff(n, shortHold, s.handoffBars(n, shortHold)...))
	}
	for _, n := range s.queues {
		if n <= mostOfAll {
			list = append(list, handoff(n, 0, s.handoffBars(n, 0)...))
		}
	}
	for i, n := range s.drained {
		bars := []bar{
			{figure: 2, against: zkLockName, limit: 0.25, counted: !s.quick}, {figure: 1, against: zkLockName, limit: 0.80},
			{figure: 0, against: zkLockName, limit: 1.5},
		}
		if i > 0 {
			bars = []bar{{figure: 3, beside: drainTitle(s.drained[0]), limit: 1.5, counted: !s.quick}} // short holds list
		}
		list = append(list, drain(n, bars...))
	}
	list = append(list,
		keep(s.holds, s.keep, s.rounds,
			bar{figure: 0, limit: 850, counted: s.holds >= 10_000}, bar{figure: 1, limit: 0, counted: s.holds >= 10_000}, bar{figure: 2, least: true, limit: 50, counted: true}),
		tryLock(bar{figure: 1, limit: 3, counted: true}, bar{figure: 2, limit: 0, counted: true}),
		sweepOrphans(s.trees, false, sweepBars...), sweepOrphans(s.trees, true, sweepBars...),
		sweepLive(s.trees, time.Hour, bar{figure: 3, limit: 0.1, counted: true}))
	return slices.Concat(list, family(s), local(s), elsewhere(s))
}

// chooseExperiments returns those of the workloads with these letters, whose titles
// match the pattern, and in which one of the peers takes part.
func chooseExperiments(s size, letters, pattern string, peers []*peer) ([]*experiment, error) {
	titles, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	list := slices.DeleteFunc(experiments(s), func(e *experiment) bool {
		return letters != "" && !strings.Contains(letters, e.workload) ||
			!titles.MatchString(e.title) || !slices.ContainsFunc(peers, e.takes)
	})
	if len(list) == 0 {
		return nil, fmt.Errorf("-workloads %q -run %q: no such experiment for these peers", letters, pattern)
	}
	return list, nil
}

// cost is what the server and the clients have counted up to a moment.
type cost struct {
	transactions int64
	client       zkserver.Counts
}

// spent tells what has been spent so far: transactions, and what those sessions
// have counted. Nothing else may use the server between two calls.
func (b *bench) spent(ctx context.Context, sessions ...session) (cost, error) {
	transactions, err := b.on.transactions(ctx)
	c := cost{transactions: transactions}
	for _, s := range sessions {
		n := s.counts()
		c.client.Requests += n.Requests
		c.client.PacketsOut += n.PacketsOut
		c.client.PacketsIn += n.PacketsIn
		c.client.BytesOut += n.BytesOut
		c.client.BytesIn += n.BytesIn
	}
	return c, err
}

// settler is a session that sees to something a while after its last lock was given
// back.
type settler interface {
	// settle returns when that is done.
	settle(ctx context.Context) error
}

// settle waits until the sessions use the server no more, so that nothing of theirs is
// counted in another's turn.
func settle(ctx context.Context, sessions ...session) error {
	var errs []error
	for _, s := range sessions {
		if s, ok := s.(settler); ok {
			errs = append(errs, s.settle(ctx))
		}
	}
	return errors.Join(errs...)
}

// spentByAll tells what has been spent so far as far as ZooKeeper knows:
// transactions, and requests of all clients, their pings included.
func (b *bench) spentByAll(ctx context.Context) (cost, error) {
	c, err := b.spent(ctx)
	if err == nil {
		c.client.Requests, err = b.on.(*zookeeper).requests(ctx)
	}
	return c, err
}

// per is what was spent since an earlier moment, for each of n.
func (c cost) per(n int, since cost) (requests, transactions, bytesOut, bytesIn float64) {
	each := func(now, then int64) float64 { return float64(now-then) / float64(n) }
	return each(c.client.Requests, since.client.Requests), each(c.transactions, since.transactions),
		each(c.client.BytesOut, since.client.BytesOut), each(c.client.BytesIn, since.client.BytesIn)
}
