package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/compare/ticks"
	"github.com/holdfast-io/holdfast/integration/wait"
)

const (
	tickWarmUp = 2 * time.Second // from the first runs until ticks count
	// settlePatience is the limit of the wait for late ticks after the last fault.
	settlePatience = 2 * time.Minute
)

// The systems beside the groups: they have servers and no clients.
const zooKeeperServers, redisServers = "ZooKeeper", "Redis"

// runTicks runs the job of each group. All groups share a ZooKeeper and a Redis.
func runTicks(ctx context.Context, set settings, groups []ticks.Group, given []string, out io.Writer) (_ *result, err error) {
	r := &run{settings: set, out: out, given: given}
	defer func() { err = errors.Join(err, r.end()) }()
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	if err := r.begin(ctx, append(names, zooKeeperServers, redisServers)); err != nil {
		return nil, err
	}
	if err := r.startTicks(ctx, groups); err != nil {
		return nil, err
	}
	res := &result{settings: set, Versions: r.versions(ctx)}
	if err := r.awaitWork(ctx); err != nil {
		return nil, err
	}
	if err := wait.Sleep(ctx, tickWarmUp); err != nil {
		return nil, err
	}
	first := time.Now().Truncate(ticks.Interval).Add(ticks.Interval)
	if res.Faults, err = r.disturb(ctx, onTicks(r.faults(tickFaults))); err != nil {
		return nil, err
	}
	last := time.Now().Truncate(ticks.Interval)
	count := func() (pending bool) {
		res.Groups = nil
		for i, g := range groups {
			var lines []ticks.Record
			for _, rec := range r.systems[i].history.All() {
				lines = append(lines, rec.Record)
			}
			f := ticks.Count(lines, g, first, last)
			res.Groups = append(res.Groups, f)
			pending = pending || g.Ours && f.Pending() > 0
		}
		return pending
	}
	for end := time.Now().Add(settlePatience); count() && time.Now().Before(end); {
		if err := wait.Sleep(ctx, ticks.Interval); err != nil {
			return nil, err
		}
	}
	if res.faults, err = r.finish(ctx); err != nil {
		return nil, err
	}
	count() // a run that was going on has ended
	if len(res.broken()) > 0 {
		err = r.keep()
	}
	return res, err
}

// startTicks starts the servers that the groups need, and the replicas.
func (r *run) startTicks(ctx context.Context, groups []ticks.Group) (err error) {
	of := func(wants func(ticks.Group) bool, start func(context.Context, string, int) (cluster, error), s *system) error {
		if s.cluster = given(nil); !slices.ContainsFunc(groups, wants) {
			return nil
		}
		c, err := start(ctx, s.dir, r.Servers)
		if err == nil {
			s.cluster = c
		}
		return err
	}
	zooKeeper, redis := r.systems[len(groups)], r.systems[len(groups)+1]
	if err := of(func(g ticks.Group) bool { return !g.Ours && !g.Unlocked }, startRedis, redis); err != nil {
		return err
	}
	if zooKeeper.cluster = given(r.given); r.given == nil {
		if err := of(func(g ticks.Group) bool { return g.Ours }, startDurable, zooKeeper); err != nil {
			return err
		}
	}
	program, err := ticks.Build(ctx, r.dir)
	if err != nil {
		return err
	}
	replica := ticks.Replica{ZooKeeper: zooKeeper.cluster.addrs()}
	if addrs := redis.cluster.addrs(); len(addrs) > 0 {
		replica.Redis = addrs[0]
	}
	return wait.All(len(groups), func(i int) error {
		replica := replica
		replica.Group = groups[i]
		return r.systems[i].join(nil, func(index, life int, _ []string) (*exec.Cmd, error) {
			own := replica
			own.Name = fmt.Sprintf("r%d.%d", index, life)
			if own.Group.Off { // each process has another offset; they are the same in all groups
				own.Ahead = wait.Between(rand.New(rand.NewPCG(r.Seed+1, uint64(index)<<32|uint64(life))), -ticks.MostOff, ticks.MostOff)
			}
			return own.Command(program)
		})
	})
}

// brokenTicks lists the promises of package schedule that were broken.
func (r result) brokenTicks() (promises []string) {
	for _, f := range r.Groups {
		if !ours(f.Group) {
			continue
		}
		if f.Missed > 0 {
			promises = append(promises, fmt.Sprintf("%s: %d ticks were missed", f.Group, f.Missed))
		}
		if f.Twice > 0 && !f.AtLeastOnce {
			promises = append(promises, fmt.Sprintf("%s: %d ticks ran twice", f.Group, f.Twice))
		}
		if f.Interrupted > 0 && f.AtLeastOnce {
			promises = append(promises, fmt.Sprintf("%s: %d ticks were begun and never ended", f.Group, f.Interrupted))
		}
	}
	return promises
}

func (r result) ticksTables() []table {
	t := table{head: []string{"group", "ticks", "ran once", "ran twice or more", "interrupted, ran again", "interrupted", "missed", "over 1 s late", "latest"}}
	for _, f := range r.Groups {
		again := "–"
		if f.AtLeastOnce {
			again = fmt.Sprint(f.Again)
		}
		t.add(f.Group, f.Ticks(), f.Once, f.Twice, again, f.Interrupted, f.Missed, f.Late, fmt.Sprintf("%.1f s", f.Latest.Seconds()))
	}
	return []table{t}
}
