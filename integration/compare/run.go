package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/history/audit"
)

const (
	clients        = 5               // of a lock or a job
	calmDown       = 3 * time.Second // no event tells that no run of a job goes on
	settlePatience = 2 * time.Minute // from the last fault until late ticks have run
	finishPatience = 90 * time.Second
)

// artifacts is the folder in which the evidence of a broken promise is kept.
var artifacts = "../artifacts"

// holdfast begins the names of the peers that are held to the promises.
const holdfast = "Holdfast"

// peer is a library that takes part.
type peer struct {
	name    string
	servers func(ctx context.Context, dir string, n int) (crew.Cluster, error) // starts n servers, with their data in dir; nil: the peer before has them
	work    func(ctx context.Context, w *worker) error                         // of a client, until ctx ends
	job     job                                                                // in ticks
	flaps   contender                                                          // in flaps
}

func (p peer) ours() bool { return strings.HasPrefix(p.name, holdfast) }

func peerOf(peers []peer, name string) peer {
	return peers[slices.IndexFunc(peers, func(p peer) bool { return p.name == name })]
}

// system is a peer at work.
type system struct {
	peer
	*crew.Team
}

// run is a run of a kind.
type run struct {
	kind
	seed    uint64
	log     io.Writer
	dir     string
	systems []*system

	versions map[string]bool
	made     map[string]int // number of faults by kind; the same in all systems
	tables   []table
	broken   breaches
}

// run runs the kind. It keeps the evidence of broken promises. In the end it kills the clients, stops the
// servers, and removes its folder.
func (k kind) run(ctx context.Context, seed uint64, log io.Writer) (r *run, err error) {
	r = &run{kind: k, seed: seed, log: log, versions: map[string]bool{}, made: map[string]int{}}
	r.say("%s, seed %d, %v, %d servers", r.name, r.seed, r.duration, r.servers)
	if r.dir, err = os.MkdirTemp("", "holdfast-compare-"); err != nil {
		return r, err
	}
	defer func() {
		closed := wait.All(len(r.systems), func(i int) error { return r.systems[i].Close() })
		err = errors.Join(err, closed, os.RemoveAll(r.dir))
	}()
	if err = r.serve(ctx); err != nil {
		return r, err
	}
	if r.scenarios != nil {
		err = r.play(ctx)
	} else {
		err = r.race(ctx)
	}
	if err == nil && len(r.broken) > 0 {
		err = r.keep()
	}
	return r, err
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.log, "compare: "+time.Now().UTC().Format("15:04:05 ")+format+"\n", args...)
}

// serve adds a system for each peer, and starts their servers. Those that a peer shares have faults as
// those of the peer before.
func (r *run) serve(ctx context.Context) error {
	for i, p := range r.peers {
		s := &system{p, &crew.Team{Name: p.name}}
		r.systems = append(r.systems, s)
		if p.servers == nil {
			s.Servers = crew.Given(r.systems[i-1].Servers.Addrs())
			continue
		}
		dir := filepath.Join(r.dir, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		started, err := p.servers(ctx, dir, r.servers)
		if err != nil {
			return err
		}
		s.Servers = started
		r.versions[started.Version()] = true
	}
	return nil
}

// clientEnv is the environment variable that makes this program a client. Its value is a client in
// JSON.
const clientEnv = "HOLDFAST_COMPARE_CLIENT"

type client struct {
	Kind, System string
	Seed         uint64
	Index, Life  int
	Servers      []string      // addresses of the client's own relays
	Ahead        time.Duration // of its wall clock
}

// worker is a client at work.
type worker struct {
	client
	peer
	crew.Teller
}

// main is the main function of a client.
func (c client) main() error {
	ctx := crew.UntilInputEnds()
	w := &worker{c, peerOf(kinds[kindIndex(c.Kind)].peers, c.System), crew.Teller{Worker: crew.Name(c.Index, c.Life)}}
	if err := w.work(ctx, w); ctx.Err() == nil {
		return err
	}
	return nil
}

// note tells of a record. If that fails, the controller has ended, and so does the worker's input.
func (w *worker) note(r crew.Record) {
	if err := w.Tell(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (c client) random(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(c.Seed+stream, uint64(c.Index)<<32|uint64(c.Life)))
}

// race runs clients of the peers under faults, and judges what they tell.
func (r *run) race(ctx context.Context) (err error) {
	off := "" // this program, built anew
	if slices.ContainsFunc(r.peers, func(p peer) bool { return p.job.off }) {
		r.say("builds the clients with wall clocks that are off")
		if off, err = buildOff(ctx, r.dir, "."); err != nil {
			return err
		}
	}
	err = wait.All(len(r.systems), func(i int) error {
		s := r.systems[i]
		return s.Start(crew.Places{N: r.clients, Servers: s.Servers.Addrs(), Command: func(index, life int, relays []string) (*exec.Cmd, error) {
			c := client{r.name, s.name, r.seed, index, life, relays, 0}
			if !s.job.off {
				return zkserver.Command("", clientEnv, c)
			}
			c.Ahead = wait.Between(c.random(1), -mostOff, mostOff) // the same in all systems
			cmd, err := zkserver.Command(off, clientEnv, c)
			cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", wallEnv, c.Ahead))
			return cmd, err
		}})
	})
	if err != nil {
		return err
	}
	p, err := r.torment(ctx)
	if err != nil {
		return err
	}
	return r.tell(ctx, p)
}

// tell fills in the table, the first rows of all systems first, and the promises that Holdfast broke.
// It audits the log of Holdfast's servers. If these disagree on their data, it returns an error.
func (r *run) tell(ctx context.Context, p period) error {
	t := table{head: r.head}
	rows := make([][][]any, len(r.systems))
	for i, s := range r.systems {
		var broken breaches
		rows[i], broken = r.judge(s, p)
		for _, b := range append(broken, r.due(s, p)...) {
			r.broken.add(s.ours(), "%s: %s", s.Name, b)
		}
	}
	for n := range rows[0] {
		for i := range rows {
			t.add(rows[i][n]...)
		}
	}
	r.tables = []table{t}
	if r.grace == 0 {
		return nil
	}
	ours := r.systems[0] // Holdfast
	found, err := crew.Audit(ctx, ours.Servers.(*crew.ZooKeeper).Servers(), audit.Options{Grace: r.grace, Skew: 2 * time.Second})
	if err != nil {
		return err
	}
	wrong, void := crew.Wrong(found)
	if found.Disagree != 0 {
		void = fmt.Sprintf("the servers' transaction logs differ from %#x on", found.Disagree)
	}
	if void != "" {
		r.tables = nil
		return fmt.Errorf("the servers of %s did not agree on their data, which is a fault of ZooKeeper's, and the run proves nothing: %s", ours.Name, void)
	}
	r.broken.add(found.Total() == 0, "the audit judged nothing")
	r.broken = append(r.broken, wrong...)
	r.tables[0].title = fmt.Sprintf("The audit of the log of %s's servers judged %d writes of %d transactions: %d violations.", ours.Name, found.Total(), found.Txns, len(wrong))
	return nil
}

// period has the moments of a run.
type period struct {
	begun, ended monotonic.Instant // the faults
	settled      monotonic.Instant // before the clients end
}

// torment makes faults of all systems while their clients work, and then ends the clients. The faults
// begin when each system has done something and is settled. The clients end when each system is
// settled again, or after settlePatience.
func (r *run) torment(ctx context.Context) (p period, err error) {
	settled := func() bool {
		p.settled = monotonic.Now()
		return !slices.ContainsFunc(r.systems, func(s *system) bool { return len(s.History.All()) == 0 || len(r.due(s, p)) > 0 })
	}
	err = wait.Until(ctx, crew.StartPatience, "all systems work", func() (bool, error) {
		for _, s := range r.systems {
			if died := s.Died(); len(died) > 0 {
				return false, errors.New(strings.Join(died, "; "))
			}
		}
		return settled(), nil
	})
	p.begun = monotonic.Now()
	if err == nil {
		r.say("all systems work: faults begin")
		err = r.disturb(ctx)
	}
	p.ended = monotonic.Now()
	for end := time.Now().Add(settlePatience); err == nil && time.Now().Before(end); {
		if err = wait.Sleep(ctx, calmDown); settled() {
			break
		}
	}
	return p, errors.Join(err, r.finish(ctx))
}

// finish ends the clients. To have to be killed, or to end by itself, breaks a promise of Holdfast.
func (r *run) finish(ctx context.Context) error {
	for _, s := range r.systems {
		bound, cancel := context.WithTimeout(ctx, finishPatience)
		for _, wrong := range append(s.Finish(bound), s.Died()...) {
			r.say("%s", wrong)
			r.broken.add(s.ours(), "%s", wrong)
		}
		cancel()
	}
	return context.Cause(ctx)
}

// keep copies the histories, and the transaction logs of the ZooKeeper servers, to a folder below
// artifacts.
func (r *run) keep() (err error) {
	dir := filepath.Join(artifacts, fmt.Sprintf("compare-%s-%d", r.name, r.seed))
	for i, s := range r.systems {
		own := filepath.Join(dir, fmt.Sprint(i))
		err = errors.Join(err, s.History.Keep(own))
		if zk, ok := s.Servers.(*crew.ZooKeeper); ok {
			err = errors.Join(err, crew.KeepLogs(zk.Servers(), own))
		}
	}
	r.say("the histories and the servers' logs are in %s", dir)
	return err
}
