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

type settings struct {
	Kind     string
	Seed     uint64
	Duration time.Duration
	Servers  int
}

// holdfast begins the names of the peers that are held to the promises.
const holdfast = "Holdfast"

// peer is a library that takes part.
type peer struct {
	name    string
	servers *service                                                      // for its clients
	offers  []string                                                      // in locks: the workloads that it has locks for
	open    func(servers []string, name, workload string) (locker, error) // in locks: connects a client of a name, for a workload's lock
	flaps   contender                                                     // in flaps
	job     job                                                           // in ticks
	own     func(w *worker, ctx context.Context) error                    // in shards: a process's work, until ctx ends
}

func (p peer) ours() bool { return strings.HasPrefix(p.name, holdfast) }

func peerOf(peers []peer, name string) peer {
	return peers[slices.IndexFunc(peers, func(p peer) bool { return p.name == name })]
}

// service starts n servers, with their data in dir. Peers with the same service share its servers.
type service struct {
	start func(ctx context.Context, dir string, n int) (crew.Cluster, error)
}

// system is a peer at work. Of those that share servers, the first has them.
type system struct {
	peer
	*crew.Team
}

type run struct {
	result
	out     io.Writer
	dir     string
	systems []*system
}

// run runs the kind, and prints the tables. It keeps the evidence of broken promises. In the end it kills
// the clients, stops the servers, and removes its folder.
func (k kind) run(ctx context.Context, set settings, out io.Writer) (_ *run, err error) {
	r := &run{result: result{settings: set}, out: out}
	r.By = fmt.Sprintf("Measured by `make compare KIND=%s DURATION=%v SEED=%d SERVERS=%d`", set.Kind, set.Duration, set.Seed, set.Servers)
	r.say("%s, seed %d, %v, %d servers", r.Kind, r.Seed, r.Duration, r.Servers)
	if r.dir, err = os.MkdirTemp("", "holdfast-compare-"); err != nil {
		return nil, err
	}
	defer func() {
		closed := wait.All(len(r.systems), func(i int) error { return r.systems[i].Close() })
		err = errors.Join(err, closed, os.RemoveAll(r.dir))
	}()
	if k.scenarios != nil {
		err = k.play(ctx, r)
	} else {
		err = k.race(ctx, r)
	}
	if r.Tables != nil {
		fmt.Fprint(out, text(r.result))
	}
	if err == nil && len(r.broken) > 0 {
		err = r.keep()
	}
	return r, err
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.out, "compare: "+time.Now().UTC().Format("15:04:05 ")+format+"\n", args...)
}

// serve adds a system for each peer, and starts their servers. It returns the servers' addresses.
func (r *run) serve(ctx context.Context, peers []peer) (map[*service][]string, error) {
	addrs := map[*service][]string{}
	for i, p := range peers {
		s := &system{p, &crew.Team{Name: p.name, Servers: crew.Given(nil)}}
		r.systems = append(r.systems, s)
		if addrs[p.servers] != nil {
			continue
		}
		dir := filepath.Join(r.dir, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		started, err := p.servers.start(ctx, dir, r.Servers)
		if err != nil {
			return nil, err
		}
		s.Servers, addrs[p.servers] = started, started.Addrs()
		r.version(started.Version())
	}
	return addrs, nil
}

func (r *run) version(v string) {
	if all := strings.Split(r.Versions, ", "); v != "" && !slices.Contains(all, v) {
		r.Versions = strings.TrimPrefix(r.Versions+", "+v, ", ")
	}
}

// clientEnv is the environment variable that makes this program a client. Its value is a client in
// JSON.
const clientEnv = "HOLDFAST_COMPARE_CLIENT"

type client struct {
	Kind, System string
	Seed         uint64
	Index, Life  int
	Servers      []string // addresses of the client's own relays
	Job          job
	Ahead        time.Duration // of its wall clock
}

// worker is a client at work.
type worker struct {
	client
	crew.Teller
}

func (c client) work() error {
	ctx := crew.UntilInputEnds()
	w := &worker{c, crew.Teller{Worker: crew.Name(c.Index, c.Life), Classify: classify}}
	if err := kinds[kindIndex(c.Kind)].work(ctx, w); ctx.Err() == nil {
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
func (k kind) race(ctx context.Context, r *run) error {
	addrs, err := r.serve(ctx, k.peers)
	if err != nil {
		return err
	}
	program := "" // this one
	if slices.ContainsFunc(k.peers, func(p peer) bool { return p.job.Off }) {
		r.say("builds the clients with wall clocks that are off")
		if program, err = buildOff(ctx, r.dir, "."); err != nil {
			return err
		}
	}
	err = wait.All(len(k.peers), func(i int) error {
		p := k.peers[i]
		return r.systems[i].Start(crew.Places{N: k.clients, Servers: addrs[p.servers], Command: func(index, life int, relays []string) (*exec.Cmd, error) {
			c := client{r.Kind, p.name, r.Seed, index, life, relays, p.job, 0}
			if p.job.Off { // the same in all systems
				c.Ahead = wait.Between(c.random(1), -mostOff, mostOff)
			}
			cmd, err := zkserver.Command(program, clientEnv, c)
			cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", wallEnv, c.Ahead))
			return cmd, err
		}})
	})
	if err != nil {
		return err
	}
	p, err := k.torment(ctx, r)
	if err != nil {
		return err
	}
	return k.tell(ctx, r, p)
}

// tell fills in the table, the first rows of all systems first, and the promises that Holdfast broke.
// It audits the log of Holdfast's servers. If these disagree on their data, it returns an error.
func (k kind) tell(ctx context.Context, r *run, p period) error {
	t := table{Head: k.head}
	rows := make([][][]any, len(r.systems))
	for i, s := range r.systems {
		var broken breaches
		rows[i], broken = k.judge(s, p)
		for _, b := range broken {
			r.broken.add(s.ours(), "%s: %s", s.Name, b)
		}
	}
	for n := range rows[0] {
		for i := range rows {
			t.add(rows[i][n]...)
		}
	}
	for _, s := range r.systems {
		z, ok := s.Servers.(*crew.ZooKeeper)
		if !ok || !s.ours() || k.grace == 0 {
			continue
		}
		found, err := crew.Audit(ctx, z.Servers(), audit.Options{Grace: k.grace, Skew: 2 * time.Second})
		if err != nil {
			return err
		}
		wrong, void := crew.Wrong(found)
		if found.Disagree != 0 {
			void = fmt.Sprintf("the servers' transaction logs differ from %#x on", found.Disagree)
		}
		if void != "" {
			return fmt.Errorf("the servers of %s did not agree on their data, which is a fault of ZooKeeper's, and the run proves nothing: %s", s.Name, void)
		}
		r.broken.add(found.Total() == 0, "the audit judged nothing")
		r.broken = append(r.broken, wrong...)
		t.After = fmt.Sprintf("The audit of the log of %s's servers judged %d writes of %d transactions: %d violations.", s.Name, found.Total(), found.Txns, len(wrong))
	}
	r.Tables = []table{t}
	return nil
}

// period has the moments of a run.
type period struct {
	begun, ended monotonic.Instant // the faults
	settled      monotonic.Instant // what they caused
}

// torment makes faults of all systems while their clients work, and then ends the clients. The faults
// begin when each system has done something and is settled. The clients end when each system is
// settled again, or after settlePatience.
func (k kind) torment(ctx context.Context, r *run) (p period, err error) {
	unsettled := func(s *system) bool {
		return len(s.History.All()) == 0 || !k.settled(s, p)
	}
	err = wait.Until(ctx, crew.StartPatience, "all systems work", func() (bool, error) {
		for _, s := range r.systems {
			if died := s.Died(); len(died) > 0 {
				return false, errors.New(strings.Join(died, "; "))
			}
		}
		return !slices.ContainsFunc(r.systems, unsettled), nil
	})
	p.begun = monotonic.Now()
	if err == nil {
		r.say("all systems work: faults begin")
		err = r.disturb(ctx, k.faults)
	}
	p.ended = monotonic.Now()
	for end := time.Now().Add(settlePatience); err == nil; {
		err = wait.Sleep(ctx, calmDown)
		if !slices.ContainsFunc(r.systems, unsettled) || time.Now().After(end) {
			break
		}
	}
	p.settled = monotonic.Now()
	return p, errors.Join(err, r.finish(ctx))
}

// finish ends the clients. To have to be killed, or to end by itself, breaks a promise of Holdfast;
// finish prints that of the others.
func (r *run) finish(ctx context.Context) error {
	for _, s := range r.systems {
		bound, cancel := context.WithTimeout(ctx, finishPatience)
		wrong := append(s.Finish(bound), s.Died()...)
		if cancel(); s.ours() {
			r.broken = append(r.broken, wrong...)
		} else if len(wrong) > 0 {
			r.say("%s", strings.Join(wrong, "; "))
		}
	}
	return context.Cause(ctx)
}

// keep copies the histories, and the transaction logs of the ZooKeeper servers, to a folder below
// artifacts.
func (r *run) keep() (err error) {
	dir := filepath.Join(artifacts, fmt.Sprintf("compare-%s-%d", r.Kind, r.Seed))
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
