// Shardrace shares 256 shards among eight processes, by package shard and, beside it, by rendezvous
// hashing over a list of members, as services do without locks: each member has an ephemeral node,
// and each computes the owner of each shard from the list. The same faults hit both teams at the same
// moments: processes are killed and started again, paused for up to 25 seconds, and restarted in
// order.
//
//	shardrace [-duration 10m] [-seed N] [-servers 1]
//
// With three servers or more, one of them at a time is killed, paused or restarted, too.
//
// Each owner of a shard writes once a second, with its fencing token; the order of the writes in time
// is that of a store. Shardrace counts from what the processes tell. The exit status is 1 if package shard broke a promise, and 2 if
// the race could not be run. README.md explains the table.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

const (
	processes = 8
	shards    = 256
	ttl       = 10 * time.Second // also of the member list's sessions
	grace     = time.Second

	startPatience = 2 * time.Minute
	closePatience = 30 * time.Second
	settle        = 90 * time.Second // from the last fault to the end, at most
	mostDown      = 2                // processes of a team that are killed or paused at once
)

// ours is the index of the team of package shard.
const ours = 0

type race struct {
	ensemble *crew.ZooKeeper
	teams    []*crew.Team

	mu     sync.Mutex
	faults map[string]int
}

func main() {
	if crew.Serve(workerEnv, work) {
		return
	}
	duration := flag.Duration("duration", 10*time.Minute, "for how long faults are made")
	seed := flag.Uint64("seed", 0, "of the faults; 0: a new one")
	servers := flag.Int("servers", 1, "ZooKeeper servers; with 3 or more, one at a time is killed, paused or restarted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	broken, err := run(ctx, cmp.Or(*seed, uint64(rand.Uint32())), *servers, *duration)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "shardrace:", err)
		os.Exit(2)
	case broken:
		os.Exit(1)
	}
}

func run(ctx context.Context, seed uint64, servers int, duration time.Duration) (broken bool, err error) {
	fmt.Printf("shardrace: seed %d, %v of faults, %d servers\n", seed, duration, servers)
	r := &race{teams: []*crew.Team{{Name: "package shard"}, {Name: "rendezvous hashing over a member list"}}, faults: map[string]int{}}
	if r.ensemble, err = crew.Start(ctx, servers, nil, zkserver.Options{Fsync: true, Optimize: true}); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.ensemble.Stop()) }()
	for i, t := range r.teams {
		defer func() { err = errors.Join(err, t.Close()) }()
		if err := t.Start(crew.Places{N: processes, Command: func(index, life int, _ []string) (*exec.Cmd, error) {
			return zkserver.Command("", workerEnv, workerConfig{i == ours, crew.Name(index, life), r.ensemble.Addrs()})
		}}); err != nil {
			return false, err
		}
	}
	if err := r.waitEven(ctx, startPatience); err != nil {
		return false, err
	}
	begun := monotonic.Now()
	if err := r.disturb(ctx, seed, duration); err != nil {
		return false, err
	}
	ended := monotonic.Now()
	if err := r.waitEven(ctx, settle); err != nil {
		fmt.Println("shardrace: broken:", err)
		broken = true
	}
	return r.report(begun, ended) || broken, nil
}

// disturb makes faults of servers, and of mostDown processes of each team at once, and mends them,
// until the duration is over.
func (r *race) disturb(ctx context.Context, seed uint64, duration time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	plague := func(stream uint64, faults []crew.Fault, least, most time.Duration) error {
		err := crew.Plague(ctx, rand.New(rand.NewPCG(seed, stream)), faults, least, most, r.made)
		if err != nil {
			cancel()
		}
		return err
	}
	err := wait.All(1+mostDown, func(i int) error {
		if i < mostDown {
			return plague(uint64(i), r.faultsOf(ctx, i), 4*time.Second, 14*time.Second)
		}
		if len(r.ensemble.Addrs()) < 3 {
			return nil
		}
		ways := crew.ServerFaults(context.WithoutCancel(ctx), r.ensemble)
		var faults []crew.Fault
		for rank, server := range []string{"leader", "follower"} {
			pick := crew.Ranked(r.ensemble, rank, rank+1)
			faults = append(faults,
				crew.Break(server+" killed", time.Second, 15*time.Second, pick, ways.Killed),
				crew.Break(server+" paused", time.Second, 15*time.Second, pick, ways.Paused),
				crew.Break(server+" restarted", 0, time.Millisecond, pick, ways.Restarted))
		}
		return plague(uint64(i), faults, 10*time.Second, 40*time.Second)
	})
	return err
}

func (r *race) made(f crew.Fault, began, ended monotonic.Instant) {
	fmt.Printf("shardrace: %s %s, %v\n", time.Now().UTC().Format("15:04:05"), f.Name, time.Duration(ended-began).Round(time.Second))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[f.Name]++
}

// faultsOf returns the faults of every mostDown-th process, from first on, at the same time in both
// teams.
func (r *race) faultsOf(ctx context.Context, first int) (faults []crew.Fault) {
	end := crew.Each(crew.Always(func(c *crew.Client) { c.End(ctx, closePatience) }))
	for _, f := range []struct {
		name        string
		least, most time.Duration
		way         crew.Way[*crew.Client]
	}{
		{"kills", time.Second, 25 * time.Second, crew.ClientKilled},
		{"pauses", time.Second, 25 * time.Second, crew.ClientPaused},
		{"restarts in order", 0, time.Millisecond, crew.Way[*crew.Client]{Damage: end, Mend: crew.ClientKilled.Mend}},
	} {
		var both []crew.Fault
		for _, t := range r.teams {
			both = append(both, crew.Break(f.name, f.least, f.most, func(_ context.Context, random *rand.Rand) ([]*crew.Client, error) {
				return []*crew.Client{t.Clients[first+mostDown*random.IntN(processes/mostDown)]}, nil
			}, f.way))
		}
		faults = append(faults, crew.Together(f.name, both...))
	}
	return faults
}

// waitEven waits until each shard has an owner in both teams, and the shares of package shard are
// even.
func (r *race) waitEven(ctx context.Context, patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		if err := wait.Sleep(ctx, time.Second); err != nil {
			return err
		}
		var wrong error
		for i, t := range r.teams {
			if died := t.Died(); len(died) > 0 {
				return errors.New(strings.Join(died, "; "))
			}
			own := judge(t.History.All(), math.MaxInt64, math.MaxInt64).owns()
			if sum(own) != shards || i == ours && (len(own) != processes || most(own) != shards/processes) {
				wrong = errors.Join(wrong, fmt.Errorf("%s: the shares are %v", t.Name, own))
			}
		}
		if wrong == nil || time.Now().After(end) {
			return wrong
		}
	}
}

// report prints the table, and reports whether package shard broke a promise.
func (r *race) report(begun, ended monotonic.Instant) (broken bool) {
	fmt.Printf("\n%v\n\n| %d shards, %d processes | writes | of a past owner: refused | accepted | refused in time | two owners, shard seconds | none, shard seconds | longest | moves | fullest of the mean |\n|---|---|---|---|---|---|---|---|---|---|\n", r.faults, shards, processes)
	var longest []string
	for i, t := range r.teams {
		j := judge(t.History.All(), begun, ended)
		n := j.numbers
		fmt.Printf("| %s | %d | %d | %d | %d | %.3f | %.1f | %.1f s | %d | %.2f |\n", t.Name, n.Writes, n.Refused, n.Accepted, n.InTime,
			n.Double.Seconds(), n.None.Seconds(), n.Longest.Seconds(), n.Moves, n.Fullest)
		since := time.Now().Add(time.Duration(j.longest.since - monotonic.Now())).UTC()
		longest = append(longest, fmt.Sprintf("%s: without an owner for longest: shard %d, after %s, from %s", t.Name, j.longest.shard, j.longest.owner, since.Format("15:04:05")))
		broken = broken || i == ours && (n.InTime > 0 || n.Accepted > 0)
	}
	fmt.Printf("\n%s\n", strings.Join(longest, "\n"))
	return broken
}
