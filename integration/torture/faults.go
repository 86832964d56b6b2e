package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// electionPatience is the time in which undisturbed servers elect a leader, even on a slow machine.
const electionPatience = time.Minute

// fault breaks something. do repairs the damage before it returns, also if ctx ends. do makes all
// random choices before it acts, so that the same seed gives the same choices. done is true if the
// fault happened as its name says.
type fault struct {
	name string
	do   func(ctx context.Context, r *rand.Rand) (done bool, err error)
}

// plague applies faults, one at a time, until ctx ends: all of them in random order, then all again
// in another order. Before each fault it waits for a random time from least to most. victim is the
// target's name in the history.
func (t *torture) plague(ctx context.Context, r *rand.Rand, victim string, faults []fault, least, most time.Duration) error {
	for _, f := range faults {
		t.planned.Store(f.name, nil)
	}
	for {
		for _, i := range r.Perm(len(faults)) {
			if wait.Sleep(ctx, wait.Between(r, least, most)) != nil {
				return nil
			}
			began := monotonic.Now()
			done, err := faults[i].do(ctx, r)
			if err != nil {
				if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
					return nil
				}
				return fmt.Errorf("%s: %w", faults[i].name, err)
			}
			if done {
				t.history.add(&record{Op: opFault, Worker: victim, Call: began, Return: monotonic.Now(), Result: faults[i].name})
			}
		}
	}
}

// clientFaults returns the faults of one worker. A fault that is worst for a holder waits until the
// worker gets a lock, at most for aim.
func (t *torture) clientFaults(c *client) []fault {
	const aim = 5 * time.Second
	stop := func(name string, least, most time.Duration) fault {
		return fault{name, func(ctx context.Context, r *rand.Rand) (bool, error) {
			d, into := wait.Between(r, least, most), wait.Between(r, 0, 200*time.Millisecond)
			c.awaitGrant(ctx, aim)
			_ = wait.Sleep(ctx, into)
			if err := c.signal(syscall.SIGSTOP); err != nil {
				return false, err
			}
			_ = wait.Sleep(ctx, d)
			return true, c.signal(syscall.SIGCONT)
		}}
	}
	part := func(name string, least, most time.Duration, some func(pick int) zkserver.Relays) fault {
		return fault{name, func(ctx context.Context, r *rand.Rand) (bool, error) {
			d, pick := wait.Between(r, least, most), r.IntN(len(c.relays))
			for _, relay := range some(pick) {
				relay.Stall()
			}
			_ = wait.Sleep(ctx, d)
			for _, relay := range some(pick) {
				relay.Resume()
			}
			return true, nil
		}}
	}
	return []fault{
		{"client killed", func(ctx context.Context, r *rand.Rand) (bool, error) {
			d, into := wait.Between(r, 0, time.Second), wait.Between(r, 0, 200*time.Millisecond)
			c.awaitGrant(ctx, aim)
			_ = wait.Sleep(ctx, into)
			c.kill()
			_ = wait.Sleep(ctx, d)
			return true, c.start()
		}},
		stop("client stopped for less than the TTL", 500*time.Millisecond, ttl-time.Second),
		stop("client stopped for more than TTL and grace", ttl+grace+2*time.Second, ttl+grace+6*time.Second),
		{"client's session expired", func(ctx context.Context, _ *rand.Rand) (bool, error) {
			return c.expire(ctx), nil
		}},
		{"client's connection cut", func(context.Context, *rand.Rand) (bool, error) {
			for _, relay := range c.relays {
				relay.Cut()
			}
			return true, nil
		}},
		part("client parted from a server", time.Second, ttl, func(pick int) zkserver.Relays { return c.relays[pick : pick+1] }),
		part("client parted from all servers", time.Second, ttl+grace+2*time.Second, func(int) zkserver.Relays { return c.relays }),
	}
}

func (t *torture) serverFaults() []fault {
	// The grace exists for the fault "leader killed, holders stopped": the next leader's clock
	// judges the leases of holders that cannot renew.
	var stopped []*client
	killWithHolders := func(servers []*zkserver.Server) error {
		stopped = nil
		var errs []error
		for _, c := range t.crew {
			if c.inside() {
				stopped = append(stopped, c)
				errs = append(errs, c.signal(syscall.SIGSTOP))
			}
		}
		return errors.Join(errors.Join(errs...), kill(servers))
	}
	restartWithHolders := func(servers []*zkserver.Server) error {
		errs := []error{t.restart(servers)}
		for _, c := range stopped {
			errs = append(errs, c.signal(syscall.SIGCONT))
		}
		return errors.Join(errs...)
	}
	part := func(s *zkserver.Server) error { t.ensemble.Isolate(s); return nil }
	nothing := func([]*zkserver.Server) error { return nil }
	rejoin := func([]*zkserver.Server) error { t.ensemble.Heal(); return nil }
	const short = 500 * time.Millisecond
	return []fault{
		{"leader killed, holders stopped", func(ctx context.Context, r *rand.Rand) (bool, error) {
			done, err := t.onServers("", 0, 1, ttl, ttl+grace, killWithHolders, restartWithHolders).do(ctx, r)
			return done && len(stopped) > 0, err
		}},
		t.onServers("leader killed", 0, 1, short, 5*time.Second, kill, t.restart),
		t.onServers("follower killed", 1, 2, short, 5*time.Second, kill, t.restart),
		t.onServers("leader paused", 0, 1, short, 6*time.Second, each((*zkserver.Server).Pause), each((*zkserver.Server).Resume)),
		t.onServers("follower paused", 1, 2, short, 6*time.Second, each((*zkserver.Server).Pause), each((*zkserver.Server).Resume)),
		t.onServers("leader restarted", 0, 1, 0, time.Millisecond, nothing, t.restart),
		t.onServers("quorum lost", 0, 2, 2*time.Second, 10*time.Second, kill, t.restart),
		t.onServers("leader parted", 0, 1, time.Second, 8*time.Second, each(part), rejoin),
		t.onServers("follower parted", 1, 2, time.Second, 8*time.Second, each(part), rejoin),
	}
}

// onServers returns a fault that damages some servers, and mends them after a random time from
// least to most. The servers are at the indexes [from:to] of a list: the leader, then the followers
// in random order.
func (t *torture) onServers(name string, from, to int, least, most time.Duration, damage, mend func([]*zkserver.Server) error) fault {
	return fault{name, func(ctx context.Context, r *rand.Rand) (bool, error) {
		d, swap := wait.Between(r, least, most), r.IntN(2) == 1
		leader, err := t.leader(ctx)
		if err != nil {
			return false, err
		}
		followers := slices.DeleteFunc(slices.Clone(t.ensemble.Servers()), func(s *zkserver.Server) bool { return s == leader })
		if swap {
			slices.Reverse(followers)
		}
		chosen := slices.Insert(followers, 0, leader)[from:to]
		err = damage(chosen)
		if err == nil {
			_ = wait.Sleep(ctx, d)
		}
		return err == nil, errors.Join(err, mend(chosen))
	}}
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

// each returns a function that calls do for one server after the other and joins the errors.
func each(do func(*zkserver.Server) error) func([]*zkserver.Server) error {
	return func(servers []*zkserver.Server) error {
		var errs []error
		for _, s := range servers {
			errs = append(errs, do(s))
		}
		return errors.Join(errs...)
	}
}

var kill = each(func(s *zkserver.Server) error { s.Kill(); return nil })

// restart starts servers, or stops and starts running ones. Without a quorum each waits for the
// others, so all start concurrently.
func (t *torture) restart(servers []*zkserver.Server) error {
	return wait.All(len(servers), func(i int) (err error) {
		for range 3 { // on a slow machine one server may not serve in time
			if err = servers[i].Restart(t.ctx); err == nil || t.ctx.Err() != nil {
				break
			}
		}
		return err
	})
}
