package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

const (
	processes  = 8 // of each system
	shards     = 256
	shardTTL   = 10 * time.Second // also of the member list's sessions
	shardGrace = time.Second
	mostDown   = 2 // processes of a system that are killed or paused at once
)

// shardPeer is a way to share shards. work is that of a process, until ctx ends.
type shardPeer struct {
	name string
	work func(w *shardWorker, ctx context.Context) error
}

var shardPeers = []shardPeer{{holdfast, (*shardWorker).holdfast}, {"rendezvous hashing over a member list", (*shardWorker).memberList}}

// runShards shares shards among the processes of each system. All systems share a ZooKeeper.
func runShards(ctx context.Context, set settings, names []string, e env) (*result, error) {
	start := func(ctx context.Context, r *run) error {
		servers, err := r.startShared(ctx, r.teams[len(names)], synced)
		if err != nil {
			return err
		}
		return wait.All(len(names), func(i int) error {
			return r.teams[i].Start(crew.Places{N: processes, Command: func(index, life int, _ []string) (*exec.Cmd, error) {
				return zkserver.Command("", shardEnv, shardConfig{names[i], crew.Name(index, life), servers})
			}})
		})
	}
	last := map[string]string{} // shares at the end, of systems in which they are uneven
	judge := func(r *run, res *result, begun, ended monotonic.Instant, over bool) (pending bool) {
		for _, t := range r.teams[:len(names)] {
			if over { // the processes have given back their shards
				f := judgeShards(t.History.All(), begun, ended).shardFigures
				f.System, f.Uneven = t.Name, last[t.Name]
				res.Shards = append(res.Shards, f)
			} else {
				last[t.Name] = uneven(t)
				pending = pending || last[t.Name] != ""
			}
		}
		return pending
	}
	ready := func(r *run) bool {
		return !slices.ContainsFunc(r.teams[:len(names)], func(t *crew.Team) bool { return uneven(t) != "" })
	}
	return contest{append(names[:len(names):len(names)], zooKeeperServers), start, ready, shardFaults, judge}.run(ctx, set, e)
}

// uneven tells the shares of a system's processes, if a shard has no owner now or several, or if
// Holdfast's shares are not equal.
func uneven(t *crew.Team) string {
	j := judgeShards(t.History.All(), math.MaxInt64, math.MaxInt64)
	own, double := j.own(func(int, *state) {})
	if sum(own) == shards && double == 0 && (!ours(t.Name) || len(own) == processes && most(own) == shards/processes) {
		return ""
	}
	return fmt.Sprintf("%v, and %d shards have several owners", own, double)
}

func (r result) brokenShards() (p promises) {
	for _, f := range r.Shards {
		if ours(f.System) {
			p.broken(f.InTime > 0 || f.Accepted > 0, "%s: %d writes of owners were refused, and %d of past owners accepted", f.System, f.InTime, f.Accepted)
			p.broken(f.Uneven != "", "%s: at the end the shares are %s", f.System, f.Uneven)
		}
	}
	return p
}

func (r result) shardsTables() []table {
	t := table{head: []string{fmt.Sprintf("%d shards, %d processes", shards, processes), "writes", "of a past owner: refused", "accepted", "refused in time",
		"two owners, shard seconds", "none, shard seconds", "longest", "moves", "fullest of the mean"}}
	for _, f := range r.Shards {
		t.add(f.System, f.Writes, f.Refused, f.Accepted, f.InTime, fmt.Sprintf("%.3f", f.Double.Seconds()), fmt.Sprintf("%.1f", f.None.Seconds()),
			fmt.Sprintf("%.1f s (%s)", f.Longest.Seconds(), f.Whose), f.Moves, fmt.Sprintf("%.2f", f.Fullest))
	}
	return []table{t}
}
