package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/peers"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

const (
	// flapTimeout is the session timeout that all clients of flaps request.
	flapTimeout = 6 * time.Second
	// shortTTL equals the session timeout, so that a crash blocks other clients hardly longer than
	// ephemeral nodes do.
	shortTTL = flapTimeout
	// flapPatience is the limit of a wait that should end much earlier.
	flapPatience = 30 * time.Second
	// ok is the answer to a command that succeeded.
	ok = peers.OK
)

// contender is a lock in the comparison of flaps.
type contender struct {
	title string        // name in the tables
	asked string        // call of its API that says whether the lock is held; "": there is none
	rides bool          // its lease outlives all faults: the holder must keep the lock
	cuts  int           // number of runs of the cuts, whose effects are random; 0: none
	ttl   time.Duration // TTL of Holdfast's entries
	setUp func(ctx context.Context, dir string) (peers.Program, error)
}

var contenders = []*contender{
	{title: "Holdfast, TTL 6 s", asked: "Remaining() > 0", cuts: 3, ttl: shortTTL, setUp: peers.Holdfast},
	{title: "Holdfast, TTL 30 s", asked: "Remaining() > 0", rides: true, ttl: 30 * time.Second, setUp: peers.Holdfast},
	{title: zkLock, cuts: 3, setUp: peers.ZKLock},
	{title: "Curator", asked: "isAcquiredInThisProcess()", cuts: 1, setUp: peers.Curator},
	{title: "kazoo", asked: "is_acquired", cuts: 1, setUp: peers.Kazoo},
}

// scenario is a sequence of faults to the clients of a lock.
type scenario struct {
	name  string
	title string
	head  []string // titles of the columns
	times func(c *contender) int
	begin func(c *contender, round int) outcome
}

var scenarios = []*scenario{stall, kill, cuts}

// outcome runs a scenario on one lock, and has its result.
type outcome interface {
	// happen runs the scenario with a peer for the clients.
	happen(ctx context.Context, b *bench, p *peers.Peer, lockPath string) error
	cells() []string
	broken() []string // promises of Holdfast that were broken
}

// flapResult is the result of one run of a scenario with one lock.
type flapResult struct {
	Scenario string
	Lock     string
	Round    int
	Cells    []string
	Broken   []string `json:",omitempty"`

	scenario  *scenario
	contender *contender
}

// bench has what the runs of flaps share: a server, and a connection for reads.
type bench struct {
	server string
	look   *zk.Conn
	alone  sync.Mutex // held by a scenario while no other one may run
}

// runFlaps runs all scenarios on all locks, in rounds, until the duration is over. The
// cuts begin when the other scenarios are over.
func runFlaps(ctx context.Context, set settings, names []string, out io.Writer) (_ *result, err error) {
	dir, err := os.MkdirTemp("", "holdfast-flaps-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := zkserver.Start(ctx, zkserver.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	version, err := server.Version(ctx)
	if err != nil {
		return nil, err
	}
	locks := slices.DeleteFunc(slices.Clone(contenders), func(c *contender) bool { return !slices.Contains(names, c.title) })
	f := &flaps{out: out, result: &result{settings: set, Versions: "ZooKeeper " + version.String()}, programs: map[*contender]program{}}
	for _, c := range locks {
		p, err := c.setUp(ctx, dir)
		f.programs[c] = program{p, err}
		if p.Version != "" {
			f.result.Versions += ", " + p.Version
		}
	}
	b, err := newBench(server.Addr())
	if err != nil {
		return nil, err
	}
	defer b.look.Close()
	for round, start := 0, time.Now(); round == 0 || time.Since(start) < set.Duration; round++ {
		f.round(ctx, b, locks, round)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return f.result, nil
}

type program struct {
	peers.Program
	absent error // reason why the lock takes no part
}

type flaps struct {
	programs map[*contender]program
	out      io.Writer

	mu     sync.Mutex
	result *result
}

func newBench(server string) (*bench, error) {
	conn, _, err := zk.Connect([]string{server}, flapTimeout, zk.WithLogInfo(false), zk.WithLogger(log.New(io.Discard, "", 0)))
	return &bench{server: server, look: conn}, err
}

func (f *flaps) round(ctx context.Context, b *bench, locks []*contender, round int) {
	for _, some := range [][]*scenario{{stall, kill}, {cuts}} {
		var all []*flapResult
		for _, s := range some {
			for _, c := range locks {
				for i := range s.times(c) {
					all = append(all, &flapResult{Scenario: s.name, Lock: c.title, Round: round*s.times(c) + i + 1, scenario: s, contender: c})
				}
			}
		}
		_ = wait.All(len(all), func(i int) error { f.one(ctx, b, all[i]); return nil })
		for _, one := range all {
			f.result.Flaps = append(f.result.Flaps, *one)
		}
	}
}

// one carries out a run.
func (f *flaps) one(ctx context.Context, b *bench, r *flapResult) {
	lockPath := fmt.Sprintf("/flaps/%s-%s-%d", r.Scenario, strings.Join(strings.FieldsFunc(r.Lock, func(c rune) bool { return c == ' ' || c == ',' }), "-"), r.Round)
	program, o := f.programs[r.contender], r.scenario.begin(r.contender, r.Round)
	err := program.absent
	if err == nil {
		var p *peers.Peer
		if p, err = peers.Start(program.Command(peers.Terms{SessionTimeout: flapTimeout, TTL: r.contender.ttl}), func(string) {}); err == nil {
			err = o.happen(ctx, b, p, lockPath)
			p.Close()
		}
	}
	if r.Cells = o.cells(); err != nil {
		r.Cells = []string{"not measured: " + err.Error()}
	}
	if ours(r.Lock) {
		if r.Broken = o.broken(); err != nil {
			r.Broken = []string{"could not be carried out: " + err.Error()}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out, "compare: %s: %s, round %d: %s\n", r.Scenario, r.Lock, r.Round, strings.Join(r.Cells, "; "))
}

// brokenFlaps lists the promises of Holdfast that were broken.
func (r result) brokenFlaps() (all []string) {
	for _, f := range r.Flaps {
		for _, what := range f.Broken {
			all = append(all, fmt.Sprintf("%s, %s, round %d: %s", f.Scenario, f.Lock, f.Round, what))
		}
	}
	return all
}

func (r result) flapsTables() (all []table) {
	for _, s := range scenarios {
		t := table{title: "**" + s.title + "**", head: s.head}
		for _, f := range r.Flaps {
			if f.Scenario == s.name {
				title := f.Lock
				if f.Round > 1 {
					title += fmt.Sprintf(", round %d", f.Round)
				}
				cells := []any{title}
				for _, c := range f.Cells {
					cells = append(cells, c)
				}
				t.add(cells...)
			}
		}
		all = append(all, t)
	}
	return all
}

// seconds formats a duration for the tables.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
