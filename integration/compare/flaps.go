package main

import (
	"context"
	"errors"
	"fmt"
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
	// run returns the cells of the lock's row, and the promises of Holdfast that were broken.
	run func(ctx context.Context, t trial, peer *peers.Peer, path string) (cells, broken []string, err error)
}

var scenarios = []*scenario{stall, kill, cuts}

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
	*run
	server string
	look   *zk.Conn   // for reads
	alone  sync.Mutex // held by a scenario while no other one may run
	locks  []ready
}

// ready is a contender with its program, or the reason why it takes no part.
type ready struct {
	*contender
	peers.Program
	absent error
}

func newBench(ctx context.Context, r *run, server string, locks []*contender) (*bench, error) {
	conn, _, err := zkserver.Connect(ctx, []string{server}, flapTimeout, nil)
	if err != nil {
		return nil, err
	}
	b := &bench{run: r, server: server, look: conn}
	for _, c := range locks {
		p, err := c.setUp(ctx, r.dir)
		b.locks = append(b.locks, ready{c, p, err})
	}
	return b, nil
}

// runFlaps runs all scenarios on all locks, in rounds, until the duration is over. In each round the
// cuts begin when the other scenarios are over.
func runFlaps(ctx context.Context, set settings, names []string, e env) (_ *result, err error) {
	r, err := newRun(set, e, []string{zooKeeperServers})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	servers, err := r.startShared(ctx, r.teams[0], zkserver.Options{})
	if err != nil {
		return nil, err
	}
	b, err := newBench(ctx, r, servers[0], slices.DeleteFunc(slices.Clone(contenders), func(c *contender) bool { return !slices.Contains(names, c.title) }))
	if err != nil {
		return nil, err
	}
	defer b.look.Close()
	res := &result{settings: set, Versions: r.versions()}
	for _, l := range b.locks {
		if l.Version != "" {
			res.Versions += ", " + l.Version
		}
	}
	for round, start := 0, time.Now(); round == 0 || time.Since(start) < set.Duration; round++ {
		res.Flaps = slices.Concat(res.Flaps, b.round(ctx, round, stall, kill), b.round(ctx, round, cuts))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return res, nil
}

// round runs scenarios on all locks at the same time.
func (b *bench) round(ctx context.Context, round int, scenarios ...*scenario) []flapResult {
	var trials []trial
	for _, s := range scenarios {
		for _, l := range b.locks {
			times := 1
			if s == cuts {
				times = l.cuts
			}
			for i := range times {
				trials = append(trials, trial{b, l, s, round*times + i + 1})
			}
		}
	}
	results := make([]flapResult, len(trials))
	_ = wait.All(len(trials), func(i int) error { results[i] = trials[i].result(ctx); return nil })
	return results
}

// trial is a run of a scenario with one lock.
type trial struct {
	*bench
	ready
	scenario *scenario
	round    int
}

func (t trial) result(ctx context.Context) flapResult {
	r := flapResult{Scenario: t.scenario.name, Lock: t.title, Round: t.round}
	var err error
	if r.Cells, r.Broken, err = t.measure(ctx); err != nil {
		r.Cells, r.Broken = []string{"not measured: " + err.Error()}, []string{"could not be carried out: " + err.Error()}
	}
	if !ours(t.title) {
		r.Broken = nil
	}
	t.say("%s: %s, round %d: %s", t.scenario.name, t.title, t.round, strings.Join(r.Cells, "; "))
	return r
}

// measure starts a peer and runs the scenario with it.
func (t trial) measure(ctx context.Context) (cells, broken []string, err error) {
	if t.absent != nil {
		return nil, nil, t.absent
	}
	peer, err := peers.Start(t.Command(peers.Terms{SessionTimeout: flapTimeout, TTL: t.ttl}), func(string) {})
	if err != nil {
		return nil, nil, err
	}
	defer peer.Close()
	lock := strings.NewReplacer(", ", "-", " ", "-").Replace(t.title)
	return t.scenario.run(ctx, t, peer, fmt.Sprintf("/flaps/%s-%s-%d", t.scenario.name, lock, t.round))
}

func (r result) brokenFlaps() (p promises) {
	for _, f := range r.Flaps {
		for _, what := range f.Broken {
			p.broken(true, "%s, %s, round %d: %s", f.Scenario, f.Lock, f.Round, what)
		}
	}
	return p
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
