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
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

const (
	startPatience  = time.Minute
	settlePatience = 2 * time.Minute // limit of the wait for late ticks after the last fault
	warmUp         = 5 * time.Second // time from the start of the replicas until ticks count
	closePatience  = 20 * time.Second
	progressEvery  = time.Minute
)

type settings struct {
	Seed     uint64
	Duration time.Duration
	Servers  int
}

type race struct {
	settings
	dir      string
	program  string
	ensemble *zkserver.Ensemble
	redis    *redisServer
	teams    []*team
	out      io.Writer
}

// team is a group with its processes. lives counts the processes that each replica has had.
type team struct {
	group
	number int
	log    string
	lives  [replicas]int
	procs  [replicas]*zkserver.Worker
}

// run runs a race and returns its result. It writes its progress to out.
func run(ctx context.Context, s settings, out io.Writer) (_ result, err error) {
	fmt.Fprintf(out, "tickrace: seed %d, %v of faults, %d ZooKeeper servers\n", s.Seed, s.Duration, s.Servers)
	r := &race{settings: s, out: out}
	if r.dir, err = os.MkdirTemp("", "holdfast-tickrace-"); err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if r.program, err = buildReplica(ctx, r.dir); err != nil {
		return result{}, err
	}
	if r.redis, err = startRedis(ctx, r.dir); err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, r.redis.stop()) }()
	if r.ensemble, err = zkserver.StartEnsemble(ctx, s.Servers, zkserver.Options{Fsync: true, Optimize: true}); err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, r.ensemble.Stop()) }()
	defer r.closeAll()
	if err := r.startAll(ctx); err != nil {
		return result{}, err
	}
	if err := wait.Sleep(ctx, warmUp); err != nil {
		return result{}, err
	}
	first := time.Now().Truncate(interval).Add(interval)
	if err := r.disturb(ctx, first); err != nil {
		return result{}, err
	}
	last := time.Now().Truncate(interval)
	return r.settle(ctx, first, last)
}

// startAll starts all replicas, and waits until each is ready.
func (r *race) startAll(ctx context.Context) error {
	for i, g := range groups {
		t := &team{group: g, number: i, log: filepath.Join(r.dir, fmt.Sprintf("group%d.log", i))}
		if err := os.WriteFile(t.log, nil, 0o600); err != nil {
			return err
		}
		r.teams = append(r.teams, t)
		for replica := range replicas {
			if err := r.start(t, replica); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for _, t := range r.teams {
		for _, p := range t.procs {
			if _, err := p.Hear(ctx); err != nil {
				return fmt.Errorf("a replica of %s: %w", t.Name, err)
			}
		}
	}
	return nil
}

// start starts the next process of a replica.
func (r *race) start(t *team, i int) (err error) {
	c := replica{
		Group: t.group, Job: fmt.Sprintf("tick%d", t.number), Name: fmt.Sprintf("r%d.%d", i, t.lives[i]),
		ZooKeeper: r.ensemble.Addrs(), Redis: r.redis.addr(), Log: t.log,
	}
	if t.Off {
		c.Ahead = offset(r.Seed, i, t.lives[i])
	}
	t.lives[i]++
	cmd, err := zkserver.Command(r.program, replicaEnv, c)
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", wallEnv, c.Ahead.Nanoseconds()))
	t.procs[i], err = zkserver.StartWorker(cmd)
	return err
}

// closeAll ends all replicas, and waits until they have ended.
func (r *race) closeAll() {
	var closing sync.WaitGroup
	for _, t := range r.teams {
		for _, p := range t.procs {
			if p != nil {
				closing.Go(func() { p.Close(closePatience) })
			}
		}
	}
	closing.Wait()
}

// event is an action of the race, and the time of the action after the start.
type event struct {
	at time.Duration
	do func() error
}

// disturb makes all faults. When it returns without an error, all replicas and servers run.
func (r *race) disturb(ctx context.Context, began time.Time) error {
	var events []event
	say := func(what any) {
		fmt.Fprintf(r.out, "tickrace: %s: %v\n", time.Now().UTC().Format("15:04:05.000"), what)
	}
	faults := planFaults(r.Seed, r.Duration)
	for _, f := range faults {
		events = append(events, event{f.at, func() error { say(f); return r.strike(f) }}, event{f.at + f.lasts, func() error { return r.heal(f) }})
	}
	for at := progressEvery; at < r.Duration; at += progressEvery {
		events = append(events, event{at, func() error { return r.progress(began) }})
	}
	var servers sync.WaitGroup
	defer servers.Wait()
	failed := make(chan error, 2*len(planRestarts(r.Seed, r.Duration)))
	if r.Servers > 1 {
		for _, at := range planRestarts(r.Seed, r.Duration) {
			events = append(events, event{at, func() error {
				say("the leader and Redis are killed")
				servers.Go(func() { failed <- r.killLeader(ctx) })
				servers.Go(func() { failed <- r.redis.restart(ctx) })
				return nil
			}})
		}
	}
	events = append(events, event{r.Duration, func() error { return nil }})
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range events {
		if err := wait.Sleep(ctx, time.Until(began.Add(e.at))); err != nil {
			return err
		}
		if err := e.do(); err != nil {
			return err
		}
	}
	servers.Wait()
	for len(failed) > 0 {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

// killLeader kills the ZooKeeper leader and starts it again.
func (r *race) killLeader(ctx context.Context) error {
	leader, err := r.ensemble.Leader(ctx)
	if err != nil {
		return err
	}
	leader.Kill()
	return leader.Restart(ctx)
}

// strike begins a fault, in all groups at the same moment.
func (r *race) strike(f fault) error {
	signal := syscall.SIGSTOP
	if f.kill {
		signal = syscall.SIGKILL
	}
	for _, t := range r.teams {
		if err := t.procs[f.replica].Signal(signal); err != nil {
			return fmt.Errorf("replica %d of %s: %w: %s", f.replica, t.Name, err, t.procs[f.replica].Stderr())
		}
	}
	return nil
}

// heal ends a fault: it continues the stopped processes, or starts new ones for the killed
// processes.
func (r *race) heal(f fault) error {
	for _, t := range r.teams {
		p := t.procs[f.replica]
		if !f.kill {
			if err := p.Signal(syscall.SIGCONT); err != nil {
				return err
			}
			continue
		}
		p.Close(0)
		if err := r.start(t, f.replica); err != nil {
			return err
		}
	}
	return nil
}

// progress prints each group's numbers so far.
func (r *race) progress(first time.Time) error {
	got, err := r.count(first, time.Now().Truncate(interval))
	for _, f := range got {
		fmt.Fprintf(r.out, "tickrace: %-36s %+v\n", f.Group, f.numbers)
	}
	return err
}

// settle waits until package schedule has no pending ticks, at most for settlePatience, and returns
// the result.
func (r *race) settle(ctx context.Context, first, last time.Time) (result, error) {
	version, err := r.ensemble.Servers()[0].Version(ctx)
	if err != nil {
		return result{}, err
	}
	end := time.Now().Add(settlePatience)
	for {
		if err := wait.Sleep(ctx, time.Second); err != nil {
			return result{}, err
		}
		got, err := r.count(first, last)
		if err != nil {
			return result{}, err
		}
		if time.Now().After(end) {
			if err := r.showMissed(first, last); err != nil {
				return result{}, err
			}
		}
		waits := slices.ContainsFunc(got, func(f figures) bool { return f.Ours && f.pending() > 0 })
		if !waits || time.Now().After(end) {
			kinds := map[string]int{}
			for _, f := range planFaults(r.Seed, r.Duration) {
				kinds[map[bool]string{true: "kills", false: "stops"}[f.kill]]++
			}
			if r.Servers > 1 {
				kinds["restarts of servers"] = len(planRestarts(r.Seed, r.Duration))
			}
			return result{settings: r.settings, ZooKeeper: version.String(), Faults: kinds, Groups: got}, nil
		}
	}
}

// showMissed prints the log lines of the ticks within 3 intervals of each tick that package
// schedule missed.
func (r *race) showMissed(first, last time.Time) error {
	for _, t := range r.teams {
		text, err := os.ReadFile(t.log)
		if err != nil || !t.Ours {
			return err
		}
		for tick := first; !tick.After(last); tick = tick.Add(interval) {
			if n, err := count(string(text), t.group, tick, tick); err != nil || n.Missed == 0 {
				continue
			}
			fmt.Fprintf(r.out, "tickrace: %s missed %s, %d; the log of the ticks around it:\n", t.Name, tick.UTC().Format("15:04:05"), tick.UnixNano())
			for line := range strings.Lines(string(text)) {
				var word string
				var near int64
				if _, err := fmt.Sscan(line, &word, &near); err == nil && tick.Sub(time.Unix(0, near)).Abs() <= 3*interval {
					fmt.Fprint(r.out, "  ", line)
				}
			}
		}
	}
	return nil
}

// count counts the ticks of all groups.
func (r *race) count(first, last time.Time) (all []figures, err error) {
	for _, t := range r.teams {
		text, err := os.ReadFile(t.log)
		if err != nil {
			return nil, err
		}
		n, err := count(string(text), t.group, first, last)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		all = append(all, figures{t.Name, t.Ours, t.AtLeastOnce, n})
	}
	return all, nil
}
