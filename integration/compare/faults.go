package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// clockStep is by how much a server's clock is stepped. It must be less than Holdfast's grace.
const clockStep = 1900 * time.Millisecond

// faults makes faults, each of which happens to all of a run's systems at the same moment.
type faults struct {
	*run
	ctx context.Context // limits restarts of servers
}

func (f faults) together(name string, of func(s *system) crew.Fault) crew.Fault {
	var each []crew.Fault
	for _, s := range f.systems {
		each = append(each, of(s))
	}
	return crew.Together(name, each...)
}

// clients is a fault of clients of each system: those at some places, which are drawn.
func (f faults) clients(name string, draw func(r *rand.Rand) []int, least, most time.Duration, way crew.Way[*crew.Client]) crew.Fault {
	return f.together(name, func(s *system) crew.Fault {
		return crew.Break(name, least, most, func(_ context.Context, r *rand.Rand) (victims []*crew.Client, _ error) {
			for _, i := range draw(r) {
				victims = append(victims, s.Clients[i])
			}
			return victims, nil
		}, way)
	})
}

func two(r *rand.Rand) []int { return r.Perm(clients)[:2] }

// server is a fault of each system's leader (rank 0) or of a follower (1).
func (f faults) server(name string, rank int, least, most time.Duration, way func(crew.Servers) crew.Way[int]) crew.Fault {
	return f.together(name, func(s *system) crew.Fault {
		return crew.Break(name, least, most, crew.Ranked(s.Servers, rank, rank+1), way(crew.Servers{Cluster: s.Servers, Ctx: f.ctx}))
	})
}

// ofServers returns the faults if there are several servers.
func (f faults) ofServers(all ...crew.Fault) []crew.Fault {
	if f.run.servers < 3 {
		return nil
	}
	return all
}

// stepped steps a server's clock and back again: forward, and the next time back.
func stepped(s crew.Servers) crew.Way[int] {
	back := time.Duration(clockStep)
	return crew.Way[int]{
		Damage: crew.Each(func(i int) error { back = -back; return s.Step(i, -back) }),
		Mend:   crew.Each(func(i int) error { return s.Step(i, 0) }),
	}
}

// lockFaults are those of the locks, of Jepsen's classes pause, kill, partition and clock. Clients are
// paused for longer than their lease.
func lockFaults(f faults) []crew.Series {
	const short, s = 500 * time.Millisecond, time.Second
	return []crew.Series{{Least: 2 * s, Most: 6 * s, Faults: append(f.ofServers(
		f.server("leader paused", 0, s, 8*s, crew.Servers.Paused),
		f.server("follower paused", 1, s, 8*s, crew.Servers.Paused),
		f.server("leader killed", 0, short, 5*s, crew.Servers.Killed),
		f.server("follower killed", 1, short, 5*s, crew.Servers.Killed),
		f.server("leader parted from the other servers", 0, s, 10*s, crew.Servers.Parted),
		f.server("leader's clock stepped", 0, 2*s, 8*s, stepped)),
		f.clients("two clients paused", two, ttl+s, ttl+grace+6*s, crew.ClientPaused),
		f.clients("two clients killed", two, short, 5*s, crew.ClientKilled),
		f.clients("two clients parted from the servers", two, s, ttl+grace+4*s, crew.ClientParted),
	)}}
}

// tickFaults are those of the ticks. Half of them come within 30 ms after a tick, when a run may be
// going on. Redis has one server, which is its leader.
func tickFaults(f faults) []crew.Series {
	all := append(f.ofServers(f.server("leader killed", 0, 0, time.Second, crew.Servers.Killed)),
		f.clients("two clients paused", two, time.Second, 13*time.Second, crew.ClientPaused),
		f.clients("two clients killed", two, 0, 12*time.Second, crew.ClientKilled))
	for i, fault := range all {
		all[i].Do = func(ctx context.Context, r *rand.Rand) (bool, error) {
			if late := wait.Between(r, 0, 30*time.Millisecond); r.IntN(2) == 0 {
				now := time.Now()
				if err := wait.Sleep(ctx, now.Truncate(time.Second).Add(time.Second+late).Sub(now)); err != nil {
					return false, err
				}
			}
			return fault.Do(ctx, r)
		}
	}
	return []crew.Series{{Least: 2 * time.Second, Most: 6 * time.Second, Faults: all}}
}

// shardFaults are those of the shards: of two processes at once, and of servers.
func shardFaults(f faults) (all []crew.Series) {
	const s = time.Second
	end := crew.Each(crew.Always(func(c *crew.Client) { c.End(f.ctx, finishPatience) }))
	for first := range 2 {
		one := func(r *rand.Rand) []int { return []int{first + 2*r.IntN(processes/2)} }
		all = append(all, crew.Series{Least: 4 * s, Most: 14 * s, Faults: []crew.Fault{
			f.clients("kills", one, s, 25*s, crew.ClientKilled),
			f.clients("pauses", one, s, 25*s, crew.ClientPaused),
			f.clients("restarts in order", one, 0, time.Millisecond, crew.Way[*crew.Client]{Damage: end, Mend: crew.ClientKilled.Mend}),
		}})
	}
	return append(all, crew.Series{Least: 10 * s, Most: 40 * s, Faults: f.ofServers(
		f.server("leader killed", 0, s, 15*s, crew.Servers.Killed),
		f.server("leader paused", 0, s, 15*s, crew.Servers.Paused),
		f.server("leader restarted", 0, 0, time.Millisecond, crew.Servers.Restarted),
		f.server("follower killed", 1, s, 15*s, crew.Servers.Killed),
		f.server("follower paused", 1, s, 15*s, crew.Servers.Paused),
		f.server("follower restarted", 1, 0, time.Millisecond, crew.Servers.Restarted),
	)})
}

// disturb makes the kind's faults for the run's duration, and counts them. When it returns without an
// error, all are repaired.
func (r *run) disturb(ctx context.Context) error {
	during, cancel := context.WithTimeout(ctx, r.duration)
	defer cancel()
	err := crew.Plague(during, r.seed, r.faults(faults{r, ctx}), func(_ int, made crew.Fault, began, ended monotonic.Instant) {
		r.made[made.Name]++
		r.say("%s, %v", made.Name, time.Duration(ended-began).Round(time.Millisecond))
	})
	if err == nil && len(r.made) == 0 {
		return errors.New("there was no time for a fault")
	}
	return err
}
