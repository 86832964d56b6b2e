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
	run   func(ctx context.Context, t trial) (outcome, error)
}

var scenarios = []*scenario{stall, kill, cuts}

// trial has what a run of a scenario with one lock uses.
type trial struct {
	*bench
	*contender
	round int
	peer  *peers.Peer // for the clients
	path  string      // of the lock
}

// outcome is the result of a run of a scenario.
type outcome interface {
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
}

// bench has what the runs of flaps share.
type bench struct {
	server   string
	look     *zk.Conn   // for reads
	alone    sync.Mutex // held by a scenario while no other one may run
	programs map[*contender]program
	say      func(format string, args ...any)
}

type program struct {
	peers.Program
	absent error // reason why the lock takes no part
}

func newBench(ctx context.Context, server, dir string, locks []*contender, e env) (*bench, error) {
	conn, _, err := zk.Connect([]string{server}, flapTimeout, zk.WithLogInfo(false), zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return nil, err
	}
	b := &bench{server: server, look: conn, programs: map[*contender]program{}, say: (&run{env: e}).say}
	for _, c := range locks {
		p, err := c.setUp(ctx, dir)
		b.programs[c] = program{p, err}
	}
	return b, nil
}

// runFlaps runs all scenarios on all locks, in rounds, until the duration is over. In each round the
// cuts begin when the other scenarios are over.
func runFlaps(ctx context.Context, set settings, names []string, e env) (_ *result, err error) {
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
	b, err := newBench(ctx, server.Addr(), dir, locks, e)
	if err != nil {
		return nil, err
	}
	defer b.look.Close()
	res := &result{settings: set, Versions: "ZooKeeper " + version.String()}
	for _, c := range locks {
		if v := b.programs[c].Version; v != "" {
			res.Versions += ", " + v
		}
	}
	for round, start := 0, time.Now(); round == 0 || time.Since(start) < set.Duration; round++ {
		res.Flaps = append(res.Flaps, b.round(ctx, locks, round, stall, kill)...)
		res.Flaps = append(res.Flaps, b.round(ctx, locks, round, cuts)...)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return res, nil
}

// round runs scenarios on all locks at the same time.
func (b *bench) round(ctx context.Context, locks []*contender, round int, scenarios ...*scenario) []flapResult {
	var runs []func() flapResult
	for _, s := range scenarios {
		for _, c := range locks {
			for i := range s.times(c) {
				runs = append(runs, func() flapResult { return b.try(ctx, s, c, round*s.times(c)+i+1) })
			}
		}
	}
	results := make([]flapResult, len(runs))
	var running sync.WaitGroup
	for i, run := range runs {
		running.Go(func() { results[i] = run() })
	}
	running.Wait()
	return results
}

// try runs a scenario on a lock.
func (b *bench) try(ctx context.Context, s *scenario, c *contender, round int) flapResult {
	r := flapResult{Scenario: s.name, Lock: c.title, Round: round}
	p, err := b.programs[c], b.programs[c].absent
	if err == nil {
		var peer *peers.Peer
		if peer, err = peers.Start(p.Command(peers.Terms{SessionTimeout: flapTimeout, TTL: c.ttl}), func(string) {}); err == nil {
			defer peer.Close()
			path := fmt.Sprintf("/flaps/%s-%s-%d", s.name, strings.Join(strings.FieldsFunc(c.title, func(c rune) bool { return c == ' ' || c == ',' }), "-"), round)
			var o outcome
			if o, err = s.run(ctx, trial{b, c, round, peer, path}); err == nil {
				r.Cells, r.Broken = o.cells(), o.broken()
			}
		}
	}
	if err != nil {
		r.Cells, r.Broken = []string{"not measured: " + err.Error()}, []string{"could not be carried out: " + err.Error()}
	}
	if !ours(c.title) {
		r.Broken = nil
	}
	b.say("%s: %s, round %d: %s", s.name, c.title, round, strings.Join(r.Cells, "; "))
	return r
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

// session returns the id of a client's session.
func session(c *peers.Client) (id int64) {
	id, _, _ = c.Tap.Session()
	return id
}

// seconds formats a duration for the tables.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
