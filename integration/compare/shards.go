package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
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

// playShards shares shards among the processes of each system. All systems share a ZooKeeper.
func playShards(ctx context.Context, r *run, names []string) error {
	var teams []*crew.Team
	for _, name := range names {
		teams = append(teams, r.add(name, nil))
	}
	servers, err := r.shareZooKeeper(ctx)
	if err != nil {
		return err
	}
	if err := wait.All(len(teams), func(i int) error { return r.start(teams[i], processes, servers) }); err != nil {
		return err
	}
	even := func(t *crew.Team) bool { return uneven(t, monotonic.Now()) == "" }
	p, err := r.torment(ctx, shardFaults, even, func(t *crew.Team, _ period) bool { return even(t) })
	if err != nil {
		return err
	}
	rows := table{Head: []string{fmt.Sprintf("%d shards, %d processes", shards, processes), "writes", "of a past owner: refused", "accepted", "refused in time",
		"two owners, shard seconds", "none, shard seconds", "longest", "moves", "fullest of the mean"}}
	for _, t := range teams {
		l := judgeShards(t.History.All(), p.begun, p.ended)
		rows.add(append([]any{t.Name}, l.cells()...)...)
		if ours(t.Name) {
			r.broken.add(l.inTime > 0 || l.accepted > 0, "%s: %d writes of owners were refused, and %d of past owners accepted", t.Name, l.inTime, l.accepted)
			shares := uneven(t, p.settled) // then the processes give back their shards
			r.broken.add(shares != "", "%s: at the end the shares are %s", t.Name, shares)
		}
	}
	r.Tables = []table{rows}
	return nil
}
