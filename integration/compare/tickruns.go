package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/integration/compare/ticks"
	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// The systems beside the groups: they have servers and no clients.
const zooKeeperServers, redisServers = "ZooKeeper", "Redis"

// runTicks runs the job of each group. All groups share a ZooKeeper and a Redis.
func runTicks(ctx context.Context, set settings, names []string, e env) (*result, error) {
	groups := slices.DeleteFunc(slices.Clone(ticks.Groups), func(g ticks.Group) bool { return !slices.Contains(names, g.Name) })
	epoch := time.Now().Add(-time.Duration(monotonic.Now()))
	start := func(ctx context.Context, r *run) error { return r.startTicks(ctx, groups) }
	judge := func(r *run, res *result, begun, ended monotonic.Instant, _ bool) (pending bool) {
		res.Groups = nil
		first, last := epoch.Add(time.Duration(begun)).Truncate(ticks.Interval).Add(ticks.Interval), epoch.Add(time.Duration(ended)).Truncate(ticks.Interval)
		for i, g := range groups {
			f := ticks.Count(r.teams[i].History.All(), g, first, last, epoch)
			res.Groups = append(res.Groups, f)
			pending = pending || g.Ours && f.Pending() > 0
		}
		return pending
	}
	return contest{append(slices.Clone(names), zooKeeperServers, redisServers), start, nil, tickFaults, judge}.run(ctx, set, e)
}

// startTicks starts the servers that the groups need, and the replicas.
func (r *run) startTicks(ctx context.Context, groups []ticks.Group) (err error) {
	var servers, redis []string
	if slices.ContainsFunc(groups, func(g ticks.Group) bool { return g.Ours }) {
		if servers, err = r.startShared(ctx, r.teams[len(groups)], synced); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(groups, func(g ticks.Group) bool { return !g.Ours && !g.Unlocked }) {
		cluster, err := startRedis(ctx, r.dir)
		if err != nil {
			return err
		}
		r.teams[len(groups)+1].Servers, redis = cluster, cluster.Addrs()
	}
	program, err := ticks.Build(ctx, r.dir)
	if err != nil {
		return err
	}
	replica := ticks.Replica{ZooKeeper: servers, Redis: strings.Join(redis, ",")}
	return wait.All(len(groups), func(i int) error {
		replica := replica
		replica.Group = groups[i]
		return r.teams[i].Start(crew.Places{N: clients, Command: func(index, life int, _ []string) (*exec.Cmd, error) {
			own := replica
			own.Name = crew.Name(index, life)
			if own.Group.Off { // each process has another offset; they are the same in all groups
				own.Ahead = wait.Between(rand.New(rand.NewPCG(r.Seed+1, uint64(index)<<32|uint64(life))), -ticks.MostOff, ticks.MostOff)
			}
			return own.Command(program)
		}})
	})
}

func (r result) brokenTicks() (p promises) {
	for _, f := range r.Groups {
		if ours(f.Group) {
			p.broken(f.Missed > 0, "%s: %d ticks were missed", f.Group, f.Missed)
			p.broken(f.Twice > 0 && !f.AtLeastOnce, "%s: %d ticks ran twice", f.Group, f.Twice)
			p.broken(f.Interrupted > 0 && f.AtLeastOnce, "%s: %d ticks were begun and never ended", f.Group, f.Interrupted)
		}
	}
	return p
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
