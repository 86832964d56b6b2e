package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/compare/ticks"
	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// playTicks runs the job of each group. All groups share a ZooKeeper and a Redis.
func playTicks(ctx context.Context, r *run, names []string) error {
	groups := map[string]ticks.Group{}
	var teams []*crew.Team
	locked := false // some take locks of Redis
	for _, g := range ticks.Groups {
		if slices.Contains(names, g.Name) {
			groups[g.Name] = g
			teams = append(teams, r.add(g.Name, nil))
			locked = locked || g.Expiry > 0
		}
	}
	zooKeeper, err := r.shareZooKeeper(ctx)
	if err != nil {
		return err
	}
	var redis string // address
	if locked {
		cluster, err := startRedis(ctx, r.dir)
		if err != nil {
			return err
		}
		redis = r.add("Redis", cluster).Servers.Addrs()[0]
	}
	program, err := ticks.Build(ctx, r.dir)
	if err != nil {
		return err
	}
	err = wait.All(len(teams), func(i int) error {
		return teams[i].Start(crew.Places{N: clients, Command: func(index, life int, _ []string) (*exec.Cmd, error) {
			own := ticks.Replica{Group: groups[teams[i].Name], Name: crew.Name(index, life), ZooKeeper: zooKeeper, Redis: redis}
			if own.Group.Off { // each process has another offset; they are the same in all groups
				own.Ahead = wait.Between(rand.New(rand.NewPCG(r.Seed+1, uint64(index)<<32|uint64(life))), -ticks.MostOff, ticks.MostOff)
			}
			return own.Command(program)
		}})
	})
	if err != nil {
		return err
	}
	epoch := time.Now().Add(-time.Duration(monotonic.Now()))
	count := func(t *crew.Team, p period) figures {
		first, last := epoch.Add(time.Duration(p.begun)).Truncate(ticks.Interval).Add(ticks.Interval), epoch.Add(time.Duration(p.ended)).Truncate(ticks.Interval)
		return countTicks(t.History.All(), groups[t.Name], first, last, epoch)
	}
	p, err := r.torment(ctx, tickFaults, nil, func(t *crew.Team, p period) bool { return !groups[t.Name].Ours || !count(t, p).pending() })
	if err != nil {
		return err
	}
	rows := table{Head: []string{"group", "ticks", "ran once", "ran twice or more", "interrupted, ran again", "interrupted", "missed", "over 1 s late", "latest"}}
	for _, t := range teams {
		f := count(t, p)
		rows.add(f.cells()...)
		if ours(t.Name) {
			r.broken = append(r.broken, f.broken()...)
		}
	}
	r.Tables = []table{rows}
	return nil
}

// figures counts a group's ticks. Each tick is counted in exactly one of the fields up to missed.
type figures struct {
	group       string
	atLeastOnce bool

	once        int // ran once, to the end
	twice       int // ran more than once
	again       int // atLeastOnce: a run was interrupted, and a later one ended
	interrupted int // a run began, but none ended
	missed      int // no run began

	late   int           // ran, but began more than an interval late
	latest time.Duration // longest time from a tick to the beginning of its first run
}

// pending reports whether some ticks may still run.
func (n figures) pending() bool { return n.missed > 0 || n.atLeastOnce && n.interrupted > 0 }

func (n figures) cells() []any {
	again := "–"
	if n.atLeastOnce {
		again = fmt.Sprint(n.again)
	}
	all := n.once + n.twice + n.again + n.interrupted + n.missed
	return []any{n.group, all, n.once, n.twice, again, n.interrupted, n.missed, n.late, fmt.Sprintf("%.1f s", n.latest.Seconds())}
}

func (n figures) broken() (b breaches) {
	b.add(n.missed > 0, "%s: %d ticks were missed", n.group, n.missed)
	b.add(n.twice > 0 && !n.atLeastOnce, "%s: %d ticks ran twice", n.group, n.twice)
	b.add(n.interrupted > 0 && n.atLeastOnce, "%s: %d ticks were begun and never ended", n.group, n.interrupted)
	return b
}

// countTicks counts the ticks from first to last by a group's records. epoch is the time at which the
// machine's monotonic clock was 0.
func countTicks(records []*crew.Record, g ticks.Group, first, last, epoch time.Time) figures {
	n := figures{group: g.Name, atLeastOnce: g.AtLeastOnce}
	byTick := map[int64][]*crew.Record{}
	for _, r := range records {
		byTick[r.Tick] = append(byTick[r.Tick], r)
	}
	for tick := first; !tick.After(last); tick = tick.Add(ticks.Interval) {
		var begun []time.Duration // after the tick
		ended, told := 0, false   // told: package schedule reported that a run was started and not finished
		for _, r := range byTick[tick.UnixNano()] {
			switch r.Op {
			case ticks.Begin:
				begun = append(begun, epoch.Add(time.Duration(r.Call)).Sub(tick))
			case ticks.End:
				ended++
			case ticks.Unfinished:
				told = true
			}
		}
		switch {
		case ended > 1 || len(begun) > 1 && !g.AtLeastOnce:
			n.twice++
		case len(begun) > 1 && ended == 1:
			n.again++
		case ended == 1:
			n.once++
		case len(begun) > 0 || told:
			n.interrupted++
		default:
			n.missed++
		}
		if len(begun) > 0 {
			late := slices.Min(begun)
			n.latest = max(n.latest, late)
			if late > ticks.Interval {
				n.late++
			}
		}
	}
	return n
}
