package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// span is a fault, with its shortest and longest duration.
type span struct {
	kind        string
	least, most time.Duration
}

// The faults, of Jepsen's classes pause, kill, partition and clock.
const (
	leaderPaused   = "leader paused"
	followerPaused = "follower paused"
	clientsPaused  = "two clients paused"
	leaderKilled   = "leader killed"
	followerKilled = "follower killed"
	clientsKilled  = "two clients killed"
	leaderParted   = "leader parted from the other servers"
	clientsParted  = "two clients parted from the servers"
	clockStepped   = "leader's clock stepped"
)

// ofClients reports whether the fault is one of clients. The others need several servers.
func (s span) ofClients() bool {
	return s.kind == clientsPaused || s.kind == clientsKilled || s.kind == clientsParted
}

// lockFaults are those of the locks. Clients are paused for longer than their lease.
var lockFaults = []span{
	{leaderPaused, time.Second, 8 * time.Second},
	{followerPaused, time.Second, 8 * time.Second},
	{clientsPaused, ttl + time.Second, ttl + grace + 6*time.Second},
	{leaderKilled, 500 * time.Millisecond, 5 * time.Second},
	{followerKilled, 500 * time.Millisecond, 5 * time.Second},
	{clientsKilled, 500 * time.Millisecond, 5 * time.Second},
	{leaderParted, time.Second, 10 * time.Second},
	{clientsParted, time.Second, ttl + grace + 4*time.Second},
	{clockStepped, 2 * time.Second, 8 * time.Second},
}

// tickFaults are those of the ticks. Redis has one server, which is its leader.
var tickFaults = []span{
	{clientsPaused, time.Second, 13 * time.Second},
	{clientsKilled, 0, 12 * time.Second},
	{leaderKilled, 0, time.Second},
}

// mostStep is the largest step of a clock. It must be less than Holdfast's grace.
const mostStep = 2 * time.Second

// faults returns a run's faults, each of which happens to all systems at the same moment.
func (r *run) faults(spans []span) (all []crew.Fault) {
	for _, f := range spans {
		if !f.ofClients() && r.Servers < 3 {
			continue
		}
		var each []crew.Fault
		for _, s := range r.systems {
			if f.ofClients() {
				each = append(each, s.ofClients(f))
			} else {
				each = append(each, s.ofServers(f))
			}
		}
		all = append(all, crew.Together(f.kind, each...))
	}
	return all
}

// ofClients returns a fault of two of the system's clients.
func (s *system) ofClients(f span) crew.Fault {
	damage, mend := (*crew.Client).Kill, (*crew.Client).Start
	signal := func(sig syscall.Signal) func(*crew.Client) error {
		return func(c *crew.Client) error { return c.Signal(sig) }
	}
	hit := crew.Each(crew.Always(damage))
	switch f.kind {
	case clientsPaused:
		hit, mend = crew.Each(signal(syscall.SIGSTOP)), signal(syscall.SIGCONT)
	case clientsParted:
		hit, mend = crew.Each(crew.Always((*crew.Client).Part)), crew.Always((*crew.Client).Rejoin)
	}
	return crew.Break(f.kind, f.least, f.most, func(_ context.Context, r *rand.Rand) (victims []*crew.Client, _ error) {
		for _, i := range r.Perm(clients)[:2] {
			if i < len(s.clients) {
				victims = append(victims, s.clients[i])
			}
		}
		return victims, nil
	}, hit, crew.Each(mend))
}

// ofServers returns a fault of one of the system's servers.
func (s *system) ofServers(f span) crew.Fault {
	var step time.Duration
	pick := func(ctx context.Context, r *rand.Rand) ([]int, error) {
		step = wait.Between(r, time.Second, mostStep)
		if r.IntN(2) == 0 {
			step = -step
		}
		nth := 1 + r.IntN(2)
		if s.cluster == nil {
			return nil, nil
		}
		victim, err := s.cluster.leader(ctx)
		if f.kind == followerPaused || f.kind == followerKilled {
			victim = (victim + nth) % len(s.cluster.addrs())
		}
		return []int{victim}, err
	}
	restart := func(i int) error { return s.cluster.restart(s.ctx, i) }
	damage, mend := s.on(cluster.kill), restart
	switch f.kind {
	case leaderPaused, followerPaused:
		damage, mend = s.on(cluster.pause), s.on(cluster.resume)
	case leaderParted:
		damage, mend = s.on(cluster.part), s.on(cluster.heal)
	case clockStepped:
		damage = func(i int) error { return s.cluster.step(i, step) }
		mend = func(i int) error { return s.cluster.step(i, 0) }
	}
	return crew.Break(f.kind, f.least, f.most, pick, crew.Each(damage), crew.Each(func(i int) error {
		if err := mend(i); err != nil {
			return err
		}
		_, err := s.cluster.leader(s.ctx) // so that there is a leader before the next fault
		return err
	}))
}

func (s *system) on(do func(cluster, int) error) func(int) error {
	return func(i int) error { return do(s.cluster, i) }
}

// onTicks makes half of the faults come within 30 ms after a tick, when a run may be going on.
func onTicks(faults []crew.Fault) []crew.Fault {
	for i, f := range faults {
		do := f.Do
		faults[i].Do = func(ctx context.Context, r *rand.Rand) (bool, error) {
			if late := wait.Between(r, 0, 30*time.Millisecond); r.IntN(2) == 0 {
				now := time.Now()
				_ = wait.Sleep(ctx, now.Truncate(time.Second).Add(time.Second+late).Sub(now))
			}
			return do(ctx, r)
		}
	}
	return faults
}

// disturb makes faults for the run's duration, with 2 to 6 s of quiet before each, and returns their
// numbers. When it returns without an error, all are repaired.
func (r *run) disturb(ctx context.Context, faults []crew.Fault) (counts map[string]int, err error) {
	counts = map[string]int{}
	during, cancel := context.WithTimeout(ctx, r.Duration)
	defer cancel()
	err = crew.Plague(during, rand.New(rand.NewPCG(r.Seed, 0)), faults, 2*time.Second, 6*time.Second, func(f crew.Fault, began, ended instant) {
		counts[f.Name]++
		r.say("%s, %v; %s", f.Name, time.Duration(ended-began).Round(time.Millisecond), r.soFar())
	})
	if err == nil && ctx.Err() == nil && len(counts) == 0 {
		err = errors.New("there was no time for a fault")
	}
	return counts, errors.Join(err, context.Cause(ctx))
}
