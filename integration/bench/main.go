// Bench measures Holdfast beside other locks on the same ZooKeeper server, in the
// same run, their turns interleaved; see BENCHMARKS.md. It exits 0 only if all was
// measured and no bar of what is counted, requests and transactions, was missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

func main() {
	quick := flag.Bool("quick", false, "a run of seconds, to see that all works; its figures mean little")
	rounds := flag.Int("rounds", 0, "rounds of each experiment; default 5, or 3 with -quick")
	names := flag.String("peers", "", "who takes part, comma separated `names`; default all, or those in Go with -quick")
	workloads := flag.String("workloads", "", "which `letters`, such as AC; default all")
	holds := flag.Int("holds", 0, "holds of workload E; default 10,000, or 1,000 with -quick")
	keeping := flag.Duration("keep", 0, "how long workload E keeps them; default 30s, or 9s with -quick")
	out := flag.String("o", "", "write the tables to this `file` too")
	flag.Parse()
	size := full
	if *quick {
		size = small
	}
	if *rounds != 0 {
		size.rounds = *rounds
	}
	if *holds != 0 {
		size.holds = *holds
	}
	if *keeping != 0 {
		size.keep = *keeping
	}
	taking, err := choosePeers(*names, *quick)
	if err == nil && size.rounds < 1 {
		err = fmt.Errorf("-rounds %d: must be at least 1", size.rounds)
	}
	if err == nil && (size.holds < 1 || size.keep/time.Duration(max(1, size.rounds)) < lock.MinTTL) {
		err = fmt.Errorf("-holds %d -keep %v: must be at least one hold, for %v in each round", size.holds, size.keep, lock.MinTTL)
	}
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	all := experiments(size)
	if *workloads != "" {
		all = slices.DeleteFunc(all, func(e *experiment) bool { return !strings.Contains(*workloads, e.workload) })
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("-workloads %q: no such workload", *workloads)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, size, taking, all, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures and reports.
func run(ctx context.Context, size size, peers []*peer, all []*experiment, out string) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := newBench(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.size = size
	for _, p := range peers {
		if p.setUp != nil {
			p.program, err = p.setUp(ctx, dir)
		}
		if err != nil {
			return fmt.Errorf("%s: %w (-peers leaves it out)", p.title, err)
		}
	}
	var r report
	r.describe(b, peers)
	for _, e := range all {
		start := time.Now()
		result, err := b.measure(ctx, e, peers)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", e.workload, e.title, err)
		}
		r.results = append(r.results, result)
		fmt.Fprintf(os.Stderr, "bench: %s, %s: %.0f s\n", e.workload, e.title, time.Since(start).Seconds())
	}
	var text strings.Builder
	missed := r.print(&text)
	if _, err := io.WriteString(os.Stdout, text.String()); err != nil {
		return err
	}
	if out != "" {
		if err := os.WriteFile(out, []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("missed: %s", strings.Join(missed, "; "))
	}
	return nil
}

// size is how much is measured.
type size struct {
	rounds  int
	warmUp  int           // cycles of a process before the first round: a JVM takes some thousand
	cycles  int           // of a free lock in a turn
	window  time.Duration // of a round where throughput is measured
	queues  []int         // contenders of the handoff
	drained int           // waiters
	holds   int           // that are kept
	keep    time.Duration // how long, all rounds together
}

var (
	full  = size{rounds: 5, warmUp: 2000, cycles: 40, window: time.Second, queues: []int{2, 16, 128}, drained: 1000, holds: 10_000, keep: 30 * time.Second}
	small = size{rounds: 3, warmUp: 20, cycles: 30, window: 100 * time.Millisecond, queues: []int{2, 16}, drained: 60, holds: 1000, keep: 9 * time.Second}
)

// bench is what all experiments share: the server, near and far.
type bench struct {
	size
	server  *zkserver.Server
	version string
	far     *proxy // 1 ms away
	look    *plain // to look with
	path    int    // number of the last path that was given out

	questions int64 // of ours that the server has counted
}

func newBench(ctx context.Context) (*bench, error) {
	server, err := zkserver.Start(ctx, zkserver.Options{Fsync: true, HeapMB: 1024, TickTime: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	b := &bench{server: server}
	stats, err := server.Mntr(ctx)
	if err == nil {
		b.version, _, _ = strings.Cut(stats["zk_version"], "-")
		b.look, err = openPlain(ctx, server.Addr())
	}
	if err == nil {
		_, err = b.look.conn.Create(root, nil, 0, zk.WorldACL(zk.PermAll))
	}
	if err == nil {
		b.far, err = newProxy(server.Addr(), roundTrip)
	}
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return b, nil
}

func (b *bench) close() error {
	b.far.close()
	return errors.Join(b.look.close(), b.server.Stop())
}

// root is the node below which all locks stand.
const root = "/bench"

// newPath returns the path of a lock that nobody has used.
func (b *bench) newPath() string {
	b.path++
	return fmt.Sprintf("%s/%d", root, b.path)
}

// measure runs an experiment: each round lets every peer have its turn, or some
// that alternate, another one first each time.
func (b *bench) measure(ctx context.Context, e *experiment, peers []*peer) (_ *result, err error) {
	r := &result{experiment: e}
	var trials []trial
	for _, p := range peers {
		if !e.takes(p) {
			continue
		}
		t, err := e.prepare(ctx, b, p)
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
	for round := range b.rounds * max(1, e.turns) {
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
const patience = time.Minute

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
