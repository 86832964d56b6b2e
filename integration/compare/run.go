package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
)

const (
	warmUp         = 2 * time.Second // from the first records until all clients work
	calmDown       = 3 * time.Second
	settlePatience = 2 * time.Minute // from the last fault until late ticks have run
	finishPatience = 90 * time.Second
)

// artifacts is the folder in which the evidence of a broken promise is kept.
var artifacts = "../artifacts"

// settings are those of a run.
type settings struct {
	Kind     string
	Seed     uint64
	Duration time.Duration
	Servers  int
}

// run is what runs, and its result.
type run struct {
	result
	out   io.Writer
	dir   string
	teams []*crew.Team // the systems; some have only servers, which others share
}

// run runs the kind with some of its peers, and prints the tables. It keeps the evidence of broken
// promises.
func (k kind) run(ctx context.Context, set settings, peers []string, out io.Writer) (_ *run, err error) {
	r := &run{result: result{settings: set}, out: out}
	r.By = fmt.Sprintf("Measured by `make compare KIND=%s DURATION=%v SEED=%d SERVERS=%d`", set.Kind, set.Duration, set.Seed, set.Servers)
	r.say("%s, seed %d, %v, %d servers: %s", r.Kind, r.Seed, r.Duration, r.Servers, strings.Join(peers, "; "))
	if r.dir, err = os.MkdirTemp("", "holdfast-compare-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	err = k.play(ctx, r, peers)
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

// end kills the clients, stops the servers, and removes the run's folder.
func (r *run) end() error {
	err := wait.All(len(r.teams), func(i int) error { return r.teams[i].Close() })
	return errors.Join(err, os.RemoveAll(r.dir))
}

// add adds a system without clients. servers may be nil.
func (r *run) add(name string, servers crew.Cluster) *crew.Team {
	t := &crew.Team{Name: name, Servers: crew.Given(nil)}
	if servers != nil {
		t.Servers = servers
		r.version(servers.Version())
	}
	r.teams = append(r.teams, t)
	return t
}

// version adds the version of a program to the result.
func (r *run) version(v string) {
	if all := strings.Split(r.Versions, ", "); v != "" && !slices.Contains(all, v) {
		r.Versions = strings.TrimPrefix(r.Versions+", "+v, ", ")
	}
}

// shareZooKeeper starts servers for all systems, and returns their addresses. They sync each write to
// disk.
func (r *run) shareZooKeeper(ctx context.Context) ([]string, error) {
	z, err := crew.Start(ctx, r.Servers, nil, zkserver.Options{Fsync: true, Optimize: true})
	if err != nil {
		return nil, err
	}
	return r.add("ZooKeeper", z).Servers.Addrs(), nil
}

// clientEnv is the environment variable that makes this program a client of the locks or the shards.
// Its value is a client in JSON.
const clientEnv = "HOLDFAST_COMPARE_CLIENT"

type client struct {
	Kind, System string
	Seed         uint64
	Index, Life  int
	Servers      []string // addresses of the client's own relays
}

func (c client) name() string { return crew.Name(c.Index, c.Life) }

func (c client) work() error {
	if c.Kind == "shards" {
		return ownShards(c)
	}
	return takeLocks(c)
}

// start starts n clients of a system.
func (r *run) start(t *crew.Team, n int, servers []string) error {
	return t.Start(crew.Places{N: n, Servers: servers, Command: func(index, life int, relays []string) (*exec.Cmd, error) {
		return zkserver.Command("", clientEnv, client{r.Kind, t.Name, r.Seed, index, life, relays})
	}})
}

// period has the moments of a run.
type period struct {
	begun, ended monotonic.Instant // the faults
	settled      monotonic.Instant // what they caused
}

// torment makes faults of all systems while their clients work, and then ends the clients. The faults
// begin when each system is ready: by default, if it has done something. The clients end when each
// system has settled: by default, soon.
func (r *run) torment(ctx context.Context, list func(*faults), ready func(*crew.Team) bool, settled func(*crew.Team, period) bool) (p period, err error) {
	all := func(yes func(*crew.Team) bool) bool {
		return !slices.ContainsFunc(r.teams, func(t *crew.Team) bool { return len(t.Clients) > 0 && !yes(t) })
	}
	if ready == nil {
		ready = func(t *crew.Team) bool { return len(t.History.All())+len(t.Died()) > 0 }
	}
	err = wait.Until(ctx, crew.StartPatience, "all systems work", func() (bool, error) {
		for _, t := range r.teams {
			if died := t.Died(); ours(t.Name) && len(died) > 0 {
				return false, errors.New(strings.Join(died, "; "))
			}
		}
		return all(ready), nil
	})
	if err == nil {
		err = wait.Sleep(ctx, warmUp)
	}
	if err != nil {
		return p, err
	}
	p.begun = monotonic.Now()
	if err := r.disturb(ctx, list); err != nil {
		return p, err
	}
	p.ended = monotonic.Now()
	for end := time.Now().Add(settlePatience); ; {
		if err := wait.Sleep(ctx, calmDown); err != nil {
			return p, err
		}
		if settled == nil || all(func(t *crew.Team) bool { return settled(t, p) }) || time.Now().After(end) {
			break
		}
	}
	p.settled = monotonic.Now()
	return p, r.finish(ctx)
}

// finish ends the clients. To have to be killed, or to end by itself, breaks a promise of Holdfast;
// finish prints that of the others.
func (r *run) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, finishPatience)
	defer cancel()
	stuck := make([][]string, len(r.teams))
	_ = wait.All(len(r.teams), func(i int) error { stuck[i] = r.teams[i].Finish(ctx); return nil })
	for i, t := range r.teams {
		if wrong := append(stuck[i], t.Died()...); ours(t.Name) {
			r.broken = append(r.broken, wrong...)
		} else if len(wrong) > 0 {
			r.say("%s", strings.Join(wrong, "; "))
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	return nil
}

// keep copies the histories, and the transaction logs of the ZooKeeper servers, to a folder below
// artifacts.
func (r *run) keep() error {
	dir := filepath.Join(artifacts, fmt.Sprintf("compare-%s-%d", r.Kind, r.Seed))
	for i, t := range r.teams {
		own := filepath.Join(dir, fmt.Sprint(i))
		err := t.History.Keep(own)
		if zk, ok := t.Servers.(*crew.ZooKeeper); ok {
			err = errors.Join(err, crew.KeepLogs(zk.Servers(), own))
		}
		if err != nil {
			return err
		}
	}
	r.say("the histories and the servers' logs are in %s", dir)
	return nil
}
