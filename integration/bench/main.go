// Bench measures Holdfast beside other locks on the same ZooKeeper servers, and
// beside those of other systems, in the same run, their turns interleaved; see
// BENCHMARKS.md. It exits 0 only if all was measured but what it says that it left
// out, and no bar of what is counted, requests and transactions, was missed.
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
	quick := flag.Bool("quick", false, "a run of seconds, to see that all works; its figures mean little")
	rounds := flag.Int("rounds", 0, "rounds of each experiment; default 5, or 2 with -quick")
	trees := flag.Int("trees", 0, "lock trees of the sweeps, in G and H; default 10,000, or 1,000 with -quick")
	names := flag.String("peers", "", "who takes part, comma separated `names`; default all, or those that are Go alone with -quick")
	workloads := flag.String("workloads", "", "which `letters`, such as AC; default all")
	pattern := flag.String("run", "", "of these, the experiments with a title that this regular `expression` matches")
	variants := flag.String("variants", "", "of the servers, comma separated `names`: standalone, delay, three; default all, or where there is a bar with -quick")
	holds := flag.Int("holds", 0, "holds of workload E; default 10,000, or 1,000 with -quick")
	keeping := flag.Duration("keep", 0, "how long workload E keeps them; default 30s, or 12s with -quick")
	window := flag.Duration("window", 0, "of each round where throughput is measured; default 1s, or 100ms with -quick. A server's first seconds are slow")
	from := flag.String("from", "", "measure nothing, and report the results in this `file`")
	out := flag.String("o", "", "write results, tables and charts into this `directory`")
	update := flag.String("update", "", "bring BENCHMARKS.md, its results and its charts in this `directory` up to date; not with a part of a run")
	flag.Parse()
	size := full
	if *quick {
		size = small
	}
	size.rounds = cmp.Or(*rounds, size.rounds)
	size.holds = cmp.Or(*holds, size.holds)
	size.keep = cmp.Or(*keeping, size.keep)
	size.trees = cmp.Or(*trees, size.trees)
	size.window = cmp.Or(*window, size.window)
	taking, err := choosePeers(*names, *quick)
	if err == nil && size.rounds < 1 {
		err = fmt.Errorf("-rounds %d: must be at least 1", size.rounds)
	}
	if err == nil && (size.holds < 1 || size.keep/time.Duration(max(1, size.rounds)) < lock.MinTTL) {
		err = fmt.Errorf("-holds %d -keep %v: must be at least one hold, for %v in each round", size.holds, size.keep, lock.MinTTL)
	}
	if err == nil && (size.window < time.Millisecond || size.window > time.Minute) {
		err = fmt.Errorf("-window %v: must be from 1ms to 1m", size.window)
	}
	if err == nil && size.trees < 1 {
		err = fmt.Errorf("-trees %d: must be at least 1", size.trees)
	}
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	if err == nil && *update != "" && (*quick || *names+*workloads+*pattern+*variants != "") {
		err = errors.New("-update: what is published is a run of everything, without -quick, -peers, -workloads, -run and -variants")
	}
	var all []*experiment
	if err == nil {
		all, err = chooseExperiments(size, *workloads, *pattern, taking)
	}
	if err == nil {
		all, err = chooseVariants(all, *variants, *quick)
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("-workloads %q -run %q -variants %q: no such experiment for these peers", *workloads, *pattern, *variants)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var r *report
	err = ready(*out, *update)
	switch {
	case err != nil:
	case *from != "":
		r, err = loadFile(*from)
	default:
		r, err = run(ctx, size, taking, *names != "", all)
	}
	var missed []string
	if err == nil {
		missed, err = r.publish(os.Stdout, *out, *update)
	}
	if err == nil && *from == "" && len(missed) > 0 {
		err = fmt.Errorf("missed: %s", strings.Join(missed, "; "))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures. Peers whose programs are not installed are left out unless all must
// take part.
func run(ctx context.Context, size size, peers []*peer, must bool, all []*experiment) (_ *report, err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := newBench(ctx, size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	peers, missing, err := setUp(ctx, dir, peers, must)
	defer func() { err = errors.Join(err, tearDown(peers)) }()
	if err != nil {
		return nil, err
	}
	r := new(report)
	r.describe(b, peers)
	for _, m := range missing {
		fmt.Fprintln(os.Stderr, "bench: left out:", m)
		r.head += "\n\nLeft out: " + m
	}
	for _, e := range all {
		start := time.Now()
		result, err := b.measure(ctx, e, peers)
		if err == nil {
			err = result.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", e.workload, e.title, err)
		}
		r.results = append(r.results, result)
		fmt.Fprintf(os.Stderr, "bench: %s, %s: %.0f s\n", e.workload, e.title, time.Since(start).Seconds())
	}
	return r, nil
}

// size is how much is measured.
type size struct {
	quick   bool
	rounds  int
	warmUp  int           // cycles of a process before the first round: a JVM takes some thousand
	cycles  int           // of a free lock in a turn
	window  time.Duration // of a round where throughput is measured
	queues  []int         // contenders of the handoff
	crowds  []int         // contenders for permits
	drained []int         // waiters
	holds   int           // that are kept
	keep    time.Duration // how long, all rounds together
	trees   int           // that are swept
}

var (
	full  = size{rounds: 5, warmUp: 2000, cycles: 40, window: time.Second, queues: []int{2, 16, 128, 1000}, crowds: []int{16, 64, 128}, drained: []int{1000, 4000}, holds: 10_000, keep: 30 * time.Second, trees: 10_000}
	small = size{quick: true, rounds: 2, warmUp: 20, cycles: 10, window: 100 * time.Millisecond, queues: []int{2, 16}, crowds: []int{16, 64}, drained: []int{60}, holds: 1000, keep: 12 * time.Second, trees: 1000}
)

// bench is what all experiments share, and what one of them connects to.
type bench struct {
	size
	server    *zkserver.Server // ZooKeeper, standalone and nearby
	zookeeper *zookeeper       // the same
	servers   *servers
	paths     *atomic.Int64 // how many were given out

	on server // what the clients of the experiment lock with
	at string // where they connect to it
}

func newBench(ctx context.Context, size size) (*bench, error) {
	z, err := startZooKeeper(ctx, 1, 1024+4*size.trees/1000)
	if err != nil {
		return nil, err
	}
	return &bench{size: size, server: z.leader(), zookeeper: z, servers: &servers{far: map[server]zkserver.Relays{}}, paths: new(atomic.Int64), on: z, at: z.addr()}, nil
}

func (b *bench) close() error { return errors.Join(b.servers.close(), b.zookeeper.close()) }

// root is the node below which all locks stand.
const root = "/bench"

// newPath returns the path of a lock that nobody has used.
func (b *bench) newPath() string {
	return fmt.Sprintf("%s/%d", root, b.paths.Add(1))
}

// measure runs an experiment: each round lets every peer have its turn, or some
// that alternate, another one first each time.
func (b *bench) measure(ctx context.Context, e *experiment, peers []*peer) (_ *result, err error) {
	r := &result{experiment: e}
	var trials []trial
	for _, p := range slices.Concat(peers, e.own) {
		if !e.takes(p) || e.variant == three && p.start != nil {
			continue
		}
		at, err := b.site(ctx, e, p)
		if err != nil {
			return nil, err
		}
		p = p.as(e.role)
		t, err := e.prepare(ctx, at, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.title, err)
		}
		defer func() {
			if closing := t.close(); closing != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", p.title, closing))
			}
		}()
		trials = append(trials, t)
		r.peers = append(r.peers, p)
	}
	r.rounds = make([][][]float64, len(trials))
	rounds := b.rounds
	if e.rounds > 0 {
		rounds = min(rounds, e.rounds)
	}
	for round := range rounds * max(1, e.turns) {
		for i := range trials {
			i := (i + round) % len(trials)
			figures, err := trials[i].round(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.peers[i].title, err)
			}
			r.rounds[i] = append(r.rounds[i], figures)
		}
	}
	return r, nil
}

// patience is how long we wait for anything: more than it ever takes.
const patience = 2 * time.Minute

// await asks until the answer is yes, for what no event tells.
func await(ctx context.Context, what string, yes func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not happen in %v that %s", patience, what))
	defer cancel()
	for {
		if done, err := yes(); done || err != nil {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
