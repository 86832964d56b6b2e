package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/judge"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// clientFaults returns the faults of one worker. A fault that is worst for a holder waits until the
// worker gets a lock, at most for aim.
func (t *torture) clientFaults(c *crew.Client) []crew.Fault {
	const aim = 5 * time.Second
	holder := func(ctx context.Context, r *rand.Rand) ([]*crew.Client, error) {
		into := wait.Between(r, 0, 200*time.Millisecond)
		// A worker that gets no lock in time is hit as it is. If ctx ends, Sleep says so.
		_ = t.team.History.Await(ctx, aim, func(r *crew.Record) bool { return r.Op == crew.OpGrant && c.Said(r) })
		return []*crew.Client{c}, wait.Sleep(ctx, into)
	}
	all := func(context.Context, *rand.Rand) ([]*zkserver.Relay, error) { return c.Relays, nil }
	one := func(_ context.Context, r *rand.Rand) ([]*zkserver.Relay, error) {
		pick := r.IntN(len(c.Relays))
		return c.Relays[pick : pick+1], nil
	}
	return []crew.Fault{
		crew.Break("client killed", 0, time.Second, holder, crew.ClientKilled),
		crew.Break("client stopped for less than the TTL", 500*time.Millisecond, ttl-time.Second, holder, crew.ClientPaused),
		crew.Break("client stopped for more than TTL and grace", ttl+grace+2*time.Second, ttl+grace+6*time.Second, holder, crew.ClientPaused),
		{Name: "client's session expired", Do: func(ctx context.Context, _ *rand.Rand) (bool, error) {
			return c.Expire(ctx, sessionTimeout), nil
		}},
		{Name: "client's connection cut", Do: func(context.Context, *rand.Rand) (bool, error) {
			for _, relay := range c.Relays {
				relay.Cut()
			}
			return true, nil
		}},
		crew.Break("client parted from a server", time.Second, ttl, one, crew.Stalled),
		crew.Break("client parted from all servers", time.Second, ttl+grace+2*time.Second, all, crew.Stalled),
	}
}

func (t *torture) serverFaults() []crew.Fault {
	servers := crew.Servers{Cluster: t.servers, Ctx: t.ctx}
	fault := func(name string, from, to int, least, most time.Duration, way crew.Way[int]) crew.Fault {
		return crew.Break(name, least, most, crew.Ranked(t.servers, from, to), way)
	}
	// The grace exists for the fault "leader killed, holders stopped": the next leader's clock
	// judges the leases of holders that cannot renew.
	var stopped []*crew.Client
	withHolders := fault("", 0, 1, ttl, ttl+grace, crew.Way[int]{Damage: func(leader []int) error {
		stopped = t.inside()
		return errors.Join(crew.ClientPaused.Damage(stopped), servers.Killed().Damage(leader))
	}, Mend: func(leader []int) error {
		return errors.Join(servers.Killed().Mend(leader), crew.ClientPaused.Mend(stopped))
	}})
	const short = 500 * time.Millisecond
	return []crew.Fault{
		{Name: "leader killed, holders stopped", Do: func(ctx context.Context, r *rand.Rand) (bool, error) {
			done, err := withHolders.Do(ctx, r)
			return done && len(stopped) > 0, err
		}},
		fault("leader killed", 0, 1, short, 5*time.Second, servers.Killed()),
		fault("follower killed", 1, 2, short, 5*time.Second, servers.Killed()),
		fault("leader paused", 0, 1, short, 6*time.Second, servers.Paused()),
		fault("follower paused", 1, 2, short, 6*time.Second, servers.Paused()),
		fault("leader restarted", 0, 1, 0, time.Millisecond, servers.Restarted()),
		fault("quorum lost", 0, 2, 2*time.Second, 10*time.Second, servers.Killed()),
		fault("leader parted", 0, 1, time.Second, 8*time.Second, servers.Parted()),
		fault("follower parted", 1, 2, time.Second, 8*time.Second, servers.Parted()),
	}
}

// inside returns the workers that hold a lock, by what they said last.
func (t *torture) inside() (holders []*crew.Client) {
	records := t.team.History.All()
	for _, c := range t.team.Clients {
		for i := len(records) - 1; i >= 0; i-- {
			if r := records[i]; c.Said(r) && r.Op != crew.OpFault {
				if r.Op == crew.OpGrant || r.Op == crew.OpCheck || r.Op == judge.OpShare || r.Op == judge.OpShown {
					holders = append(holders, c)
				}
				break
			}
		}
	}
	return holders
}
