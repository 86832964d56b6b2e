// Bench measures Holdfast, other locks on the same ZooKeeper servers, and locks of other systems.
// All are measured in the same run, with interleaved turns; see METHOD.md. It exits 0 only if
// everything was measured except what it reports as left out, and no bar on counts of requests and
// transactions was missed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

func main() {
	serveEtcd()
	o := parseOptions()
	p, err := o.plan()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends this process at once
	if err := o.publish(ctx, p); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// publish measures the plan, or reads its results from a file. It prints the tables, and writes
// results, tables and charts to the given directories. It fails if the measurement missed a bar on
// counts.
func (o *options) publish(ctx context.Context, p *plan) error {
	if err := ready(o.out, o.update); err != nil {
		return err
	}
	var r *report
	var err error
	if o.from != "" {
		r, err = loadFile(o.from)
	} else {
		r, err = p.run(ctx)
	}
	if err != nil {
		return err
	}
	var tables strings.Builder
	missed := r.print(&tables)
	_, err = fmt.Print(&tables)
	if err == nil && o.out != "" {
		err = r.write(o.out, "bench.md", tables.String())
	}
	if err == nil && o.update != "" {
		err = r.update(o.update)
	}
	if err == nil && o.from == "" && len(missed) > 0 {
		err = fmt.Errorf("missed: %s", strings.Join(missed, "; "))
	}
	return err
}

// run measures the plan. If a peer's programs are not installed, run leaves the peer out, or fails
// if the peers were named.
func (p *plan) run(ctx context.Context) (_ *report, err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	z, err := startZooKeeper(ctx, 1, 1024+4*p.size.trees/1000)
	if err != nil {
		return nil, err
	}
	b := &bench{size: p.size, zookeeper: z, far: map[*server]zkserver.Relays{}}
	defer func() { err = errors.Join(err, b.close()) }()
	peers, missing, err := setUp(ctx, dir, p.peers, p.must)
	defer func() { err = errors.Join(err, tearDown(peers)) }()
	if err != nil {
		return nil, err
	}
	r := &report{Head: describe(b, peers)}
	for _, m := range missing {
		fmt.Fprintln(os.Stderr, "bench: left out:", m)
		r.Head += "\n\nLeft out: " + m
	}
	for _, e := range p.experiments {
		start := time.Now()
		result, err := b.measure(ctx, e, peers)
		if err == nil {
			err = result.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", e.Workload, e.Title, err)
		}
		r.results = append(r.results, result)
		fmt.Fprintf(os.Stderr, "bench: %s, %s: %.0f s\n", e.Workload, e.Title, time.Since(start).Seconds())
	}
	return r, nil
}

// size is the extent of a run.
type size struct {
	quick   bool
	rounds  int
	warmUp  int           // cycles of a process before the first round; a JVM needs thousands
	cycles  int           // cycles of a free lock in a turn
	window  time.Duration // time of a round that measures throughput
	queues  []int         // contenders of the handoff
	crowds  []int         // contenders for permits
	drained []int         // waiters of the drain
	holds   int           // holds to keep
	keep    time.Duration // time to keep them, over all rounds
	trees   int           // lock trees to sweep
}

var (
	full  = size{rounds: 5, warmUp: 2000, cycles: 40, window: time.Second, queues: []int{2, 16, 128, 1000}, crowds: []int{16, 64, 128}, drained: []int{1000, 4000}, holds: 10_000, keep: 30 * time.Second, trees: 10_000}
	small = size{quick: true, rounds: 2, warmUp: 20, cycles: 10, window: 100 * time.Millisecond, queues: []int{2, 16}, crowds: []int{16, 64}, drained: []int{60}, holds: 1000, keep: 12 * time.Second, trees: 1000}
)

// bench is the shared state of all experiments.
type bench struct {
	size
	zookeeper *zookeeper                  // a standalone, nearby server
	three     *zookeeper                  // an ensemble; nil until it is needed
	far       map[*server]zkserver.Relays // relays that delay replies, by server
	paths     atomic.Int64                // number of calls of newPath
}

func (b *bench) close() error {
	for _, way := range b.far {
		way.Close()
	}
	err := b.zookeeper.close()
	if b.three != nil {
		err = errors.Join(err, b.three.close())
	}
	return err
}

// root is the node above all locks.
const root = "/bench"

// newPath returns the path of an unused lock.
func (b *bench) newPath() string {
	return fmt.Sprintf("%s/%d", root, b.paths.Add(1))
}

// measure runs an experiment. In each round every peer has a turn, in an order that rotates, so
// that each round begins with another peer.
func (b *bench) measure(ctx context.Context, e *experiment, peers []*peer) (_ *result, err error) {
	r := &result{table: e.table}
	var trials []trial
	for _, p := range slices.Concat(peers, e.own) {
		if !e.takes(p) || e.variant == three && p.start != nil {
			continue
		}
		at, err := b.site(ctx, e.variant, p)
		if err != nil {
			return nil, err
		}
		p = p.as(e.role)
		t, err := e.prepare(ctx, at, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Title, err)
		}
		defer func() {
			if closing := t.close(); closing != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", p.Title, closing))
			}
		}()
		trials = append(trials, t)
		r.Peers = append(r.Peers, p)
	}
	r.Rounds = make([][]turn, len(trials))
	rounds := min(b.rounds, cmp.Or(e.rounds, b.rounds))
	turns := max(1, e.turns)
	if b.quick {
		turns = 1
	}
	for round := range rounds * turns {
		for i := range trials {
			i := (i + round) % len(trials)
			figures, err := trials[i].round(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Peers[i].Title, err)
			}
			r.Rounds[i] = append(r.Rounds[i], figures)
		}
	}
	return r, nil
}

// patience is the limit of a wait that should end much earlier.
const patience = 2 * time.Minute

// options has the command line's flags. The zero value of a flag means its default.
type options struct {
	size                            size // values of the flags that set the size
	peers, workloads, run, variants string
	from, out, update               string
}

func parseOptions() *options {
	o := new(options)
	flag.BoolVar(&o.size.quick, "quick", false, "a run of seconds, to see that all works; its figures mean little")
	flag.IntVar(&o.size.rounds, "rounds", 0, "rounds of each experiment; default 5, or 2 with -quick")
	flag.IntVar(&o.size.trees, "trees", 0, "lock trees of the sweeps, in G and H; default 10,000, or 1,000 with -quick")
	flag.StringVar(&o.peers, "peers", "", "which peers take part, comma separated `names`; default all, or those that are Go alone with -quick")
	flag.StringVar(&o.workloads, "workloads", "", "which `letters`, such as AC; default all")
	flag.StringVar(&o.run, "run", "", "of these, the experiments with a title that this regular `expression` matches")
	flag.StringVar(&o.variants, "variants", "", "of the servers, comma separated `names`: standalone, delay, three; default all, or where there is a bar with -quick")
	flag.IntVar(&o.size.holds, "holds", 0, "holds of workload E; default 10,000, or 1,000 with -quick")
	flag.DurationVar(&o.size.keep, "keep", 0, "how long workload E keeps them; default 30s, or 12s with -quick")
	flag.DurationVar(&o.size.window, "window", 0, "of each round where throughput is measured; default 1s, or 100ms with -quick. A server's first seconds are slow")
	flag.StringVar(&o.from, "from", "", "measure nothing, and report the results in this `file`")
	flag.StringVar(&o.out, "o", "", "write results, tables and charts into this `directory`")
	flag.StringVar(&o.update, "update", "", "bring BENCHMARKS.md, its results and its charts in this `directory` up to date; not with a part of a run")
	flag.Parse()
	return o
}

// plan has the experiments and the peers of a run.
type plan struct {
	size        size
	peers       []*peer
	must        bool // fail if a peer is not installed, instead of leaving it out
	experiments []*experiment
}

// plan returns the plan that the options describe, or an error if they are invalid.
func (o *options) plan() (*plan, error) {
	p := &plan{size: full, must: o.peers != ""}
	if o.size.quick {
		p.size = small
	}
	s := &p.size
	s.rounds = cmp.Or(o.size.rounds, s.rounds)
	s.holds = cmp.Or(o.size.holds, s.holds)
	s.keep = cmp.Or(o.size.keep, s.keep)
	s.trees = cmp.Or(o.size.trees, s.trees)
	s.window = cmp.Or(o.size.window, s.window)
	if err := o.check(p.size); err != nil {
		return nil, err
	}
	var err error
	if p.peers, err = choosePeers(o.peers, o.size.quick); err != nil {
		return nil, err
	}
	p.experiments, err = chooseExperiments(p.size, o.workloads, o.run, o.variants, p.peers)
	return p, err
}

func (o *options) check(s size) error {
	switch {
	case s.rounds < 1:
		return fmt.Errorf("-rounds %d: must be at least 1", s.rounds)
	case s.holds < 1 || s.keep/2/time.Duration(s.rounds) < lock.MinTTL:
		return fmt.Errorf("-holds %d -keep %v: must be at least one hold, for %v in each round", s.holds, s.keep, 2*lock.MinTTL)
	case s.window < time.Millisecond || s.window > time.Minute:
		return fmt.Errorf("-window %v: must be from 1ms to 1m", s.window)
	case s.trees < 1:
		return fmt.Errorf("-trees %d: must be at least 1", s.trees)
	case flag.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	case o.update != "" && (s.quick || o.peers+o.workloads+o.run+o.variants != ""):
		return errors.New("-update: what is published is a run of everything, without -quick, -peers, -workloads, -run and -variants")
	}
	return nil
}
