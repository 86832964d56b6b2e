package main

import (
	"context"
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

var contenders = []contender{
	{title: "Holdfast, TTL 6 s", asked: "Remaining() > 0", cuts: 3, ttl: shortTTL, setUp: peers.Holdfast},
	{title: "Holdfast, TTL 30 s", asked: "Remaining() > 0", rides: true, ttl: 30 * time.Second, setUp: peers.Holdfast},
	{title: zkLock, cuts: 3, setUp: peers.ZKLock},
	{title: "Curator", asked: "isAcquiredInThisProcess()", cuts: 1, setUp: peers.Curator},
	{title: "kazoo", asked: "is_acquired", cuts: 1, setUp: peers.Kazoo},
}

// scenario is a sequence of faults to the clients of a lock.
type scenario struct {
	name, title string
	head        []string // titles of the columns
	// run returns the cells of the lock's row, and the promises that it would have broken if it were
	// Holdfast.
	run func(ctx context.Context, t trial, peer *peers.Peer, path string) (cells []any, broken breaches, err error)
}

// flaps has what the trials share.
type flaps struct {
	*run
	server string
	look   *zk.Conn   // for reads
	alone  sync.Mutex // held by a trial while no other one may run
}

// library is a contender with its program, or the reason why it takes no part.
type library struct {
	contender
	peers.Program
	absent error
}

// trial is a run of a scenario with one lock.
type trial struct {
	*flaps
	scenario *scenario
	lock     library
	round    int
}

// playFlaps runs all scenarios on all locks. The cuts begin when the other scenarios are over.
func playFlaps(ctx context.Context, r *run, names []string) error {
	locks := slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool { return !slices.Contains(names, c.title) })
	return r.playScenarios(ctx, locks, []*scenario{stall, kill}, []*scenario{cuts})
}

// playScenarios runs scenarios on all locks, in rounds, until the duration is over. The scenarios of a
// phase run at the same time.
func (r *run) playScenarios(ctx context.Context, locks []contender, phases ...[]*scenario) error {
	servers, err := r.shareZooKeeper(ctx)
	if err != nil {
		return err
	}
	f := &flaps{run: r, server: servers[0]}
	if f.look, _, err = zkserver.Connect(ctx, servers, flapTimeout, nil); err != nil {
		return err
	}
	defer f.look.Close()
	var libraries []library
	for _, c := range locks {
		p, err := c.setUp(ctx, r.dir)
		r.version(p.Version)
		libraries = append(libraries, library{c, p, err})
	}
	tables := map[*scenario]*table{}
	for _, s := range slices.Concat(phases...) {
		tables[s] = &table{Title: "**" + s.title + "**", Head: s.head}
	}
	for round, start := 0, time.Now(); round == 0 || time.Since(start) < r.Duration; round++ {
		for _, scenarios := range phases {
			trials := f.trials(scenarios, libraries, round)
			rows, broken := make([][]any, len(trials)), make([]breaches, len(trials))
			_ = wait.All(len(trials), func(i int) error { rows[i], broken[i] = trials[i].row(ctx); return nil })
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			for i, t := range trials {
				tables[t.scenario].add(rows[i]...)
				r.broken = append(r.broken, broken[i]...)
			}
		}
	}
	for _, s := range slices.Concat(phases...) {
		r.Tables = append(r.Tables, *tables[s])
	}
	return nil
}

// trials returns the runs of scenarios with all locks in a round.
func (f *flaps) trials(scenarios []*scenario, libraries []library, round int) (all []trial) {
	for _, s := range scenarios {
		for _, l := range libraries {
			times := 1
			if s == cuts {
				times = l.cuts
			}
			for i := range times {
				all = append(all, trial{f, s, l, round*times + i + 1})
			}
		}
	}
	return all
}

// row runs the trial. It returns the row of its table, and the promises of Holdfast that were broken.
func (t trial) row(ctx context.Context) (row []any, broken breaches) {
	cells, wrong, err := t.measure(ctx)
	if err != nil {
		cells, wrong = []any{"not measured: " + err.Error()}, breaches{"could not be carried out: " + err.Error()}
	}
	name := t.lock.title
	if t.round > 1 {
		name += fmt.Sprintf(", round %d", t.round)
	}
	row = append([]any{name}, cells...)
	t.say("%s: %v", t.scenario.name, row)
	for _, w := range wrong {
		broken.add(ours(t.lock.title), "%s, %s, round %d: %s", t.scenario.name, t.lock.title, t.round, w)
	}
	return row, broken
}

// measure starts a peer and runs the scenario with it.
func (t trial) measure(ctx context.Context) (cells []any, broken breaches, err error) {
	if t.lock.absent != nil {
		return nil, nil, t.lock.absent
	}
	peer, err := peers.Start(t.lock.Command(peers.Terms{SessionTimeout: flapTimeout, TTL: t.lock.ttl}), func(string) {})
	if err != nil {
		return nil, nil, err
	}
	defer peer.Close()
	name := strings.NewReplacer(", ", "-", " ", "-").Replace(t.lock.title)
	return t.scenario.run(ctx, t, peer, fmt.Sprintf("/flaps/%s-%s-%d", t.scenario.name, name, t.round))
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
