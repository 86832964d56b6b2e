// Flaps compares four locks on ZooKeeper while connections and sessions flap: Holdfast, zk.Lock of
// go-zookeeper, InterProcessMutex of Curator and Lock of kazoo. It runs them on a server of its own
// and prints tables; see README.md. It exits 0 only if Holdfast kept its promises in all scenarios.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
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
)

const (
	// sessionTimeout is the timeout that all clients request.
	sessionTimeout = 6 * time.Second
	// patience is the limit of a wait that should end much earlier.
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
	if err := r.carryOut(ctx, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "flaps:", err)
		os.Exit(1)
	}
	if kept := r.print(os.Stdout); !kept {
		os.Exit(1)
	}
}

// scenario is a sequence of faults to the clients of a lock.
type scenario struct {
	name  string // name on the command line
	title string
	head  []string                           // titles of the columns
	times func(c *contender, rounds int) int // number of runs for a lock
	begin func(c *contender, round int) outcome
	alone bool // no other scenario may run while it measures
}

var scenarios = []*scenario{stall, kill, cuts}

// outcome runs a scenario on one lock, and has its result.
type outcome interface {
	// happen runs the scenario with a peer for the clients. It calls ready when the rest of the
	// scenario is mostly waiting.
	happen(ctx context.Context, b *bench, p *peers.Peer, lockPath string, ready func()) error
	cells() []string
	broken() []string // promises that Holdfast broke
}

// run is one run of a scenario with one lock.
type run struct {
	scenario  *scenario
	contender *contender
	round     int
	outcome
	err error // reason why the run could not be carried out
}

// report has all runs and their results.
type report struct {
	contenders []*contender
	zookeeper  string // version of the server
	runs       []*run
}

func newReport(locks, names []string, rounds int) (*report, error) {
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
	for _, name := range names {
		i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-scenarios: unknown scenario %q", name)
		}
		for _, c := range r.contenders {
			for round := 1; round <= scenarios[i].times(c, rounds); round++ {
				r.runs = append(r.runs, &run{scenario: scenarios[i], contender: c, round: round, outcome: scenarios[i].begin(c, round)})
			}
		}
	}
	return r, nil
}

// carryOut runs all scenarios. It returns an error of the bench; a run keeps its own error. Runs
// are concurrent, but a scenario that must be alone begins when all other runs have called ready.
func (r *report) carryOut(ctx context.Context, verbose bool) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-flaps-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := newBench(ctx, verbose)
	if err != nil {
		return err
	}
	defer func() { b.look.Close(); err = errors.Join(err, b.stop()) }()
	r.zookeeper = b.version
	for _, c := range r.contenders {
		c.program, c.absent = c.setUp(ctx, dir)
	}
	var running, inPlace sync.WaitGroup
	for _, alone := range []bool{false, true} {
		for _, one := range r.runs {
			if one.scenario.alone != alone {
				continue
			}
			inPlace.Add(1)
			running.Go(func() {
				ready := sync.OnceFunc(inPlace.Done)
				defer ready()
				one.carryOut(ctx, b, ready)
			})
			if alone {
				inPlace.Wait()
			}
		}
		inPlace.Wait()
	}
	running.Wait()
	return context.Cause(ctx)
}

func (r *run) carryOut(ctx context.Context, b *bench, ready func()) {
	lockPath := fmt.Sprintf("%s/%s-%s-%d", root, r.scenario.name, r.contender.name, r.round)
	said := "done"
	if r.err = r.contender.absent; r.err == nil {
		var p *peers.Peer
		if p, r.err = r.contender.start(b.overhear(lockPath)); r.err == nil {
			r.err = r.happen(ctx, b, p, lockPath, ready)
			p.Close()
		}
	}
	if r.err != nil {
		said = fmt.Sprintf("could not be carried out: %v", r.err)
	}
	b.say("%s: %s, round %d: %s", r.scenario.name, r.contender.title, r.round, said)
}

// bench has what the runs share: a server, and a connection for reads.
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
	version, err := server.Version(ctx)
	if err == nil {
		b.version = version.String()
		b.look, _, err = zk.Connect([]string{b.server}, sessionTimeout, zk.WithLogInfo(false), zk.WithLogger(log.New(io.Discard, "", 0)))
	}
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return b, nil
}

// say prints progress to standard error.
func (*bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, "flaps: "+format+"\n", args...) }

// overhear returns a function that prints the lines of a peer, if -v is set.
func (b *bench) overhear(lockPath string) func(line string) {
	start := time.Now()
	return func(line string) {
		if b.verbose {
			b.say("%s %8.3f %s", lockPath, time.Since(start).Seconds(), line)
		}
	}
}

// contender is a lock in the comparison.
type contender struct {
	name    string // name on the command line
	title   string // name in the tables
	asked   string // call of its API that says whether the lock is held; "": there is none
	ours    bool
	rides   bool          // its lease outlives all faults: the holder must keep the lock
	cuts    int           // least number of rounds of cuts, whose effects are random; 0: none
	ttl     time.Duration // TTL of Holdfast's entries
	setUp   func(ctx context.Context, dir string) (peers.Program, error)
	program peers.Program
	absent  error // reason why the lock takes no part
}

// start starts a peer that uses the lock.
func (c *contender) start(overhear func(line string)) (*peers.Peer, error) {
	return peers.Start(c.program.Command(peers.Terms{SessionTimeout: sessionTimeout, TTL: c.ttl}), overhear)
}

// shortTTL equals the session timeout, so that a crash blocks other clients hardly longer than
// ephemeral nodes do.
const shortTTL = sessionTimeout

var contenders = []*contender{
	{
		name: "holdfast", title: "Holdfast, TTL 6 s", asked: "Remaining() > 0",
		ours: true, cuts: 3, ttl: shortTTL, setUp: peers.Holdfast,
	},
	{
		name: "holdfast-30s", title: "Holdfast, TTL 30 s", asked: "Remaining() > 0",
		ours: true, rides: true, ttl: 30 * time.Second, setUp: peers.Holdfast,
	},
	{name: "zk.Lock", title: "zk.Lock", cuts: 3, setUp: peers.ZKLock},
	{name: "curator", title: "Curator", asked: "isAcquiredInThisProcess()", cuts: 1, setUp: peers.Curator},
	{name: "kazoo", title: "kazoo", asked: "is_acquired", cuts: 1, setUp: peers.Kazoo},
}
