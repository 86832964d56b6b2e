// Flaps shows side by side what four locks on ZooKeeper do when connections and
// sessions flap: Holdfast, zk.Lock of go-zookeeper, InterProcessMutex of Curator
// and Lock of kazoo. It runs them on a server of its own and prints tables; see
// README.md. It exits 0 only if Holdfast kept its promises in all scenarios.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/peers"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	// sessionTimeout is what all clients ask for.
	sessionTimeout = 6 * time.Second
	// patience is how long we wait for anything: more than it ever takes.
	patience = 30 * time.Second
	// root is the parent of all locks.
	root = "/flaps"
	// ok is the answer to a command that succeeded.
	ok = peers.OK
)

func main() {
	peers.ServeIfPeer()
	var names []string
	for _, c := range contenders {
		names = append(names, c.name)
	}
	locks := flag.String("locks", strings.Join(names, ","), "the locks that take part, comma separated `names`")
	scenarios := flag.String("scenarios", "stall,kill,cuts", "the scenarios to run, comma separated `names`")
	rounds := flag.Int("rounds", 1, "run each `n` times; the cuts at least 3 times for Holdfast and zk.Lock")
	verbose := flag.Bool("v", false, "tell what each client says")
	flag.Parse()
	r, err := newReport(strings.Split(*locks, ","), strings.Split(*scenarios, ","), *rounds)
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "flaps:", err)
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := r.run(ctx, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "flaps:", err)
		os.Exit(1)
	}
	if kept := r.print(os.Stdout); !kept {
		os.Exit(1)
	}
}

// report is all that is to be run, and what came of it.
type report struct {
	contenders []*contender
	zookeeper  string // its version
	pairs      []*pairRun
	cuts       []*cutsRun
}

func newReport(locks, scenarios []string, rounds int) (*report, error) {
	r := new(report)
	if rounds < 1 {
		return nil, fmt.Errorf("-rounds %d: must be at least 1", rounds)
	}
	for _, name := range locks {
		i := slices.IndexFunc(contenders, func(c *contender) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-locks: unknown lock %q", name)
		}
		r.contenders = append(r.contenders, contenders[i])
	}
	for _, name := range scenarios {
		i := slices.IndexFunc(faults, func(f *fault) bool { return f.name == name })
		if i < 0 && name != cutsName {
			return nil, fmt.Errorf("-scenarios: unknown scenario %q", name)
		}
		for _, c := range r.contenders {
			if i >= 0 {
				for round := range rounds {
					r.pairs = append(r.pairs, &pairRun{fault: faults[i], contender: c, round: round + 1})
				}
			} else if c.cuts > 0 {
				for round := range max(rounds, c.cuts) {
					r.cuts = append(r.cuts, &cutsRun{contender: c, round: round + 1, turns: newTurns()})
				}
			}
		}
	}
	return r, nil
}

// run carries everything out. Its errors are those of the bench; each run has its
// own.
func (r *report) run(ctx context.Context, verbose bool) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-flaps-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := newBench(ctx, verbose)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r.zookeeper = b.version
	for _, c := range r.contenders {
		c.program, c.absent = c.setUp(ctx, dir)
	}

	var runs, inPlace sync.WaitGroup
	for _, one := range r.pairs {
		inPlace.Add(1)
		runs.Go(func() {
			ready := sync.OnceFunc(inPlace.Done)
			defer ready()
			if one.err = one.contender.absent; one.err == nil {
				one.err = one.run(ctx, b, ready)
			}
			b.tell(one.fault.name, one.contender, one.round, one.err)
		})
	}
	// The others now wait for time to pass. What is measured has the machine to
	// itself, one after the other.
	inPlace.Wait()
	for _, one := range r.cuts {
		measured := make(chan struct{})
		runs.Go(func() {
			done := sync.OnceFunc(func() { close(measured) })
			defer done()
			if one.err = one.contender.absent; one.err == nil {
				one.err = one.run(ctx, b, done)
			}
			b.tell(cutsName, one.contender, one.round, one.err)
		})
		<-measured
	}
	runs.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// bench is what the runs share: a server, and a connection to look with.
type bench struct {
	server  string
	version string
	look    *zk.Conn
	stop    func() error
	verbose bool
}

func newBench(ctx context.Context, verbose bool) (*bench, error) {
	server, err := zkserver.Start(ctx, zkserver.Options{})
	if err != nil {
		return nil, err
	}
	b := &bench{server: server.Addr(), stop: server.Stop, verbose: verbose}
	stats, err := server.Mntr(ctx)
	if err == nil {
		b.version, _, _ = strings.Cut(stats["zk_version"], "-")
		b.look, _, err = zk.Connect([]string{b.server}, sessionTimeout, zk.WithLogInfo(false), zk.WithLogger(silence{}))
	}
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return b, nil
}

func (b *bench) close() error {
	b.look.Close()
	return b.stop()
}

// say tells how things go.
func (*bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, "flaps: "+format+"\n", args...) }

// tell tells how a run ended.
func (b *bench) tell(scenario string, c *contender, round int, err error) {
	if err != nil {
		b.say("%s: %s, round %d: could not be carried out: %v", scenario, c.title, round, err)
		return
	}
	b.say("%s: %s, round %d: done", scenario, c.title, round)
}

// overhear returns what takes the lines that a peer says.
func (b *bench) overhear(lockPath string) func(line string) {
	start := time.Now()
	return func(line string) {
		if b.verbose {
			b.say("%s %8.3f %s", lockPath, time.Since(start).Seconds(), line)
		}
	}
}

// lockPath is the path of the lock of one run.
func lockPath(scenario string, c *contender, round int) string {
	return fmt.Sprintf("%s/%s-%s-%d", root, scenario, c.name, round)
}

// awaitContenders waits until there are n contenders for a lock.
func (b *bench) awaitContenders(ctx context.Context, lockPath string, n int) error {
	return await(ctx, fmt.Sprintf("%d contend for %s", n, lockPath), func() (bool, error) {
		children, _, err := b.look.Children(lockPath)
		return len(znode.Contenders(children)) == n, err
	})
}

// await asks until the answer is yes, for what no event tells.
func await(ctx context.Context, what string, yes func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not happen in %v that %s", patience, what))
	defer cancel()
	for {
		if done, err := yes(); done || err != nil {
			return err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// sleep lets time pass.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// silence is a logger for go-zookeeper.
type silence struct{}

func (silence) Printf(string, ...any) {}
