package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/compare/ticks"
	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

const (
	clients        = 5               // of each system
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

// env is where a run happens.
type env struct {
	out   io.Writer
	given []string // addresses of ZooKeeper servers to use, for tests; nil: the run starts its own
}

// contest is a run of the locks or the ticks.
type contest struct {
	systems []string
	start   func(ctx context.Context, r *run) error // starts servers and clients
	ready   func(r *run) bool                       // nil: it is when each system has done something
	faults  func(f *faults)                         // lists the faults
	// judge fills in the result, after the faults, and again when the clients have ended (over). begun
	// and ended are the times of the faults. pending says that more is to come.
	judge func(r *run, res *result, begun, ended monotonic.Instant, over bool) (pending bool)
}

// run makes faults of all systems, ends the clients, judges, and keeps the evidence of broken promises.
func (c contest) run(ctx context.Context, set settings, e env) (_ *result, err error) {
	r, err := newRun(set, e, c.systems)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	if err := c.start(ctx, r); err != nil {
		return nil, err
	}
	res := &result{settings: set, Versions: r.versions()}
	if err := r.awaitWork(ctx, c.ready); err != nil {
		return nil, err
	}
	if err := wait.Sleep(ctx, warmUp); err != nil {
		return nil, err
	}
	begun := monotonic.Now()
	f := &faults{run: r, ctx: ctx}
	c.faults(f)
	if res.Faults, err = r.disturb(ctx, f.series); err != nil {
		return nil, err
	}
	ended := monotonic.Now()
	for end := time.Now().Add(settlePatience); ; {
		if err := wait.Sleep(ctx, calmDown); err != nil {
			return nil, err
		}
		if !c.judge(r, res, begun, ended, false) || time.Now().After(end) {
			break
		}
	}
	if res.failed, err = r.finish(ctx); err != nil {
		return nil, err
	}
	c.judge(r, res, begun, ended, true)
	if err := r.audit(ctx, res); err != nil {
		return res, err
	}
	if len(res.broken()) > 0 {
		err = r.keep()
	}
	return res, err
}

// run is what runs.
type run struct {
	settings
	env
	dir   string
	teams []*crew.Team
}

func newRun(set settings, e env, systems []string) (_ *run, err error) {
	r := &run{settings: set, env: e}
	r.say("%s, seed %d, %v, %d servers: %s", r.Kind, r.Seed, r.Duration, r.Servers, strings.Join(systems, "; "))
	for _, name := range systems {
		r.teams = append(r.teams, &crew.Team{Name: name, Servers: crew.Given(r.given)})
	}
	r.dir, err = os.MkdirTemp("", "holdfast-compare-")
	return r, err
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.out, "compare: "+time.Now().UTC().Format("15:04:05 ")+format+"\n", args...)
}

// soFar tells how much each system has done.
func (r *run) soFar() string {
	var all []string
	for _, t := range r.teams {
		if len(t.Clients) > 0 {
			all = append(all, fmt.Sprintf("%s %d", t.Name, t.History.Count(crew.OpGrant)+t.History.Count(ticks.Begin)))
		}
	}
	return strings.Join(all, ", ")
}

// end kills the clients, stops the servers, and removes the run's folder.
func (r *run) end() error {
	err := wait.All(len(r.teams), func(i int) error { return r.teams[i].Close() })
	return errors.Join(err, os.RemoveAll(r.dir))
}

// versions returns the versions of the servers.
func (r *run) versions() string {
	var all []string
	for _, t := range r.teams {
		if v := t.Servers.Version(); v != "" && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return strings.Join(all, ", ")
}

// awaitWork waits until all systems are ready.
func (r *run) awaitWork(ctx context.Context, ready func(r *run) bool) error {
	return wait.Until(ctx, crew.StartPatience, "all systems work", func() (bool, error) {
		for _, t := range r.teams {
			if died := t.Died(); ours(t.Name) && len(died) > 0 {
				return false, errors.New(strings.Join(died, "; "))
			}
		}
		if ready != nil {
			return ready(r), wait.Sleep(ctx, time.Second)
		}
		return !slices.ContainsFunc(r.teams, func(t *crew.Team) bool { return len(t.Clients) > 0 && len(t.History.All()) == 0 && len(t.Died()) == 0 }), nil
	})
}

// synced are the options of servers that sync each write to disk.
var synced = zkserver.Options{Fsync: true, Optimize: true}

// startShared starts servers for all systems, and returns their addresses.
func (r *run) startShared(ctx context.Context, t *crew.Team, opts zkserver.Options) ([]string, error) {
	if r.given == nil {
		z, err := crew.Start(ctx, r.Servers, nil, opts)
		if err != nil {
			return nil, err
		}
		t.Servers = z
	}
	return t.Servers.Addrs(), nil
}

// finish ends the clients. It says which of Holdfast's had to be killed, or had ended by themselves, and
// prints that of the others.
func (r *run) finish(ctx context.Context) (ofOurs []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, finishPatience)
	defer cancel()
	stuck := make([][]string, len(r.teams))
	var ending sync.WaitGroup
	for i, t := range r.teams {
		ending.Go(func() { stuck[i] = t.Finish(ctx) })
	}
	ending.Wait()
	for i, t := range r.teams {
		if wrong := append(stuck[i], t.Died()...); ours(t.Name) {
			ofOurs = append(ofOurs, wrong...)
		} else if len(wrong) > 0 {
			r.say("%s", strings.Join(wrong, "; "))
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, context.Cause(ctx)
	}
	return ofOurs, nil
}

// keep copies the histories, and the servers' transaction logs of Holdfast, to a folder below
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
