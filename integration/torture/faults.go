package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// electionPatience is the time in which undisturbed servers elect a leader, even on a slow machine.
const electionPatience = time.Minute

// plague makes faults of a victim until ctx ends, and records them.
func (t *torture) plague(ctx context.Context, r *rand.Rand, victim string, faults []crew.Fault, least, most time.Duration) error {
	for _, f := range faults {
		t.planned.Store(f.Name, nil)
	}
	return crew.Plague(ctx, r, faults, least, most, func(f crew.Fault, began, ended instant) {
		t.history.Add(&record{Op: opFault, Worker: victim, Call: began, Return: ended, Result: f.Name})
	})
}

// clientFaults returns the faults of one worker. A fault that is worst for a holder waits until the
// worker gets a lock, at most for aim.
func (t *torture) clientFaults(c *client) []crew.Fault {
	const aim = 5 * time.Second
	holder := func(ctx context.Context, r *rand.Rand) ([]*client, error) {
		into := wait.Between(r, 0, 200*time.Millisecond)
		c.awaitGrant(ctx, aim)
		_ = wait.Sleep(ctx, into)
		return []*client{c}, nil
	}
	stop := func(name string, least, most time.Duration) crew.Fault {
		return crew.Break(name, least, most, holder,
			crew.Each(func(c *client) error { return c.Signal(syscall.SIGSTOP) }), crew.Each(func(c *client) error { return c.Signal(syscall.SIGCONT) }))
	}
	part := func(name string, least, most time.Duration, some func(pick int) zkserver.Relays) crew.Fault {
		return crew.Break(name, least, most, func(_ context.Context, r *rand.Rand) ([]*zkserver.Relay, error) {
			return some(r.IntN(len(c.Relays))), nil
		},
			crew.Each(crew.Always((*zkserver.Relay).Stall)), crew.Each(crew.Always((*zkserver.Relay).Resume)))
	}
	return []crew.Fault{
		crew.Break("client killed", 0, time.Second, holder,
			crew.Each(func(c *client) error { c.Kill(); return nil }), crew.Each(func(c *client) error { return c.Start() })),
		stop("client stopped for less than the TTL", 500*time.Millisecond, ttl-time.Second),
		stop("client stopped for more than TTL and grace", ttl+grace+2*time.Second, ttl+grace+6*time.Second),
		{Name: "client's session expired", Do: func(ctx context.Context, _ *rand.Rand) (bool, error) {
			return c.expire(ctx), nil
		}},
		{Name: "client's connection cut", Do: func(context.Context, *rand.Rand) (bool, error) {
			for _, relay := range c.Relays {
				relay.Cut()
			}
			return true, nil
		}},
		part("client parted from a server", time.Second, ttl, func(pick int) zkserver.Relays { return c.Relays[pick : pick+1] }),
		part("client parted from all servers", time.Second, ttl+grace+2*time.Second, func(int) zkserver.Relays { return c.Relays }),
	}
}

func (t *torture) serverFaults() []crew.Fault {
	// The grace exists for the fault "leader killed, holders stopped": the next leader's clock
	// judges the leases of holders that cannot renew.
	var stopped []*client
	killWithHolders := func(servers []*zkserver.Server) error {
		stopped = nil
		var errs []error
		for _, c := range t.crew {
			if c.inside() {
				stopped = append(stopped, c)
				errs = append(errs, c.Signal(syscall.SIGSTOP))
			}
		}
		return errors.Join(errors.Join(errs...), kill(servers))
	}
	restartWithHolders := func(servers []*zkserver.Server) error {
		errs := []error{t.restart(servers)}
		for _, c := range stopped {
			errs = append(errs, c.Signal(syscall.SIGCONT))
		}
		return errors.Join(errs...)
	}
	part := func(s *zkserver.Server) error { t.ensemble.Isolate(s); return nil }
	nothing := func([]*zkserver.Server) error { return nil }
	rejoin := func([]*zkserver.Server) error { t.ensemble.Heal(); return nil }
	const short = 500 * time.Millisecond
	return []crew.Fault{
		{Name: "leader killed, holders stopped", Do: func(ctx context.Context, r *rand.Rand) (bool, error) {
			done, err := t.onServers("", 0, 1, ttl, ttl+grace, killWithHolders, restartWithHolders).Do(ctx, r)
			return done && len(stopped) > 0, err
		}},
		t.onServers("leader killed", 0, 1, short, 5*time.Second, kill, t.restart),
		t.onServers("follower killed", 1, 2, short, 5*time.Second, kill, t.restart),
		t.onServers("leader paused", 0, 1, short, 6*time.Second, crew.Each((*zkserver.Server).Pause), crew.Each((*zkserver.Server).Resume)),
		t.onServers("follower paused", 1, 2, short, 6*time.Second, crew.Each((*zkserver.Server).Pause), crew.Each((*zkserver.Server).Resume)),
		t.onServers("leader restarted", 0, 1, 0, time.Millisecond, nothing, t.restart),
		t.onServers("quorum lost", 0, 2, 2*time.Second, 10*time.Second, kill, t.restart),
		t.onServers("leader parted", 0, 1, time.Second, 8*time.Second, crew.Each(part), rejoin),
		t.onServers("follower parted", 1, 2, time.Second, 8*time.Second, crew.Each(part), rejoin),
	}
}

// onServers returns a fault that damages some servers, and mends them after a random time from
// least to most. The servers are at the indexes [from:to] of a list: the leader, then the followers
// in random order.
func (t *torture) onServers(name string, from, to int, least, most time.Duration, damage, mend func([]*zkserver.Server) error) crew.Fault {
	return crew.Break(name, least, most, func(ctx context.Context, r *rand.Rand) ([]*zkserver.Server, error) {
		swap := r.IntN(2) == 1
		leader, err := t.leader(ctx)
		followers := slices.DeleteFunc(slices.Clone(t.ensemble.Servers()), func(s *zkserver.Server) bool { return s == leader })
		if swap {
			slices.Reverse(followers)
		}
		return slices.Insert(followers, 0, leader)[from:to], err
	}, damage, mend)
}

// leader waits until there is a leader. It counts an election if the leader is not the one of the
// last call.
func (t *torture) leader(ctx context.Context) (*zkserver.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, electionPatience)
	defer cancel()
	leader, err := t.ensemble.Leader(ctx)
	if err == nil && t.led != leader {
		if t.led != nil {
			t.elections++
		}
		t.led = leader
	}
	return leader, err
}

var kill = crew.Each(crew.Always((*zkserver.Server).Kill))

// restart starts servers, or stops and starts running ones. Without a quorum each waits for the
// others, so all start concurrently.
func (t *torture) restart(servers []*zkserver.Server) error {
	return crew.AtOnce(func(s *zkserver.Server) (err error) {
		for range 3 { // on a slow machine one server may not serve in time
			if err = s.Restart(t.ctx); err == nil || t.ctx.Err() != nil {
				break
			}
		}
		return err
	})(servers)
}
