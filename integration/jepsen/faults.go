package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// fault happens to all systems at the same time.
type fault struct {
	kind  string
	quiet time.Duration // time without a fault before it
	lasts time.Duration
	pick  []int         // indexes of two clients; the first one also chooses the follower
	step  time.Duration // change of the leader's clock; 0 for other kinds
}

func (f fault) String() string {
	s := fmt.Sprintf("%s for %v", f.kind, f.lasts.Round(time.Millisecond))
	if f.step != 0 {
		s += fmt.Sprintf(", by %v", f.step.Round(time.Millisecond))
	}
	return s
}

// The kinds of faults, of Jepsen's classes pause, kill, partition and clock.
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

// spans has the shortest and the longest duration of each kind. Clients are paused for longer than
// their lease.
var spans = []struct {
	kind        string
	least, most time.Duration
}{
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

// repairPatience: disturb prints the duration of a repair that takes longer.
const repairPatience = 5 * time.Second

// mostStep is the largest step of a clock. It must be less than Holdfast's grace.
const mostStep = 2 * time.Second

// plan returns a function that returns random faults: all kinds in random order, then all again in
// another order, without end. The same seed gives the same faults.
func plan(seed uint64) func() fault {
	r := rand.New(rand.NewPCG(seed, 0))
	var order []int
	return func() fault {
		if len(order) == 0 {
			order = r.Perm(len(spans))
		}
		s := spans[order[0]]
		order = order[1:]
		f := fault{kind: s.kind, quiet: wait.Between(r, 2*time.Second, 6*time.Second), lasts: wait.Between(r, s.least, s.most), pick: r.Perm(clients)[:2]}
		step := wait.Between(r, time.Second, mostStep)
		if r.IntN(2) == 0 {
			step = -step
		}
		if f.kind == clockStepped {
			f.step = step
		}
		return f
	}
}

// disturb makes faults for the duration, and returns their number by kind. When it returns without
// an error, all are repaired.
func disturb(ctx context.Context, all []*system, seed uint64, duration time.Duration, out io.Writer) (map[string]int, error) {
	counts := map[string]int{}
	end := time.Now().Add(duration)
	for next := plan(seed); ; {
		f := next()
		if time.Now().Add(f.quiet + f.lasts).After(end) {
			return counts, wait.Sleep(ctx, time.Until(end))
		}
		if err := wait.Sleep(ctx, f.quiet); err != nil {
			return counts, err
		}
		var holds []string
		for _, s := range all {
			holds = append(holds, fmt.Sprintf("%s %d", s.name, s.history.count(opGrant)))
		}
		fmt.Fprintf(out, "jepsen: %s: %v; holds so far: %s\n", time.Now().UTC().Format("15:04:05.000"), f, strings.Join(holds, ", "))
		if err := wait.All(len(all), func(i int) error {
			began := time.Now()
			if err := all[i].suffer(ctx, f); err != nil {
				return fmt.Errorf("%s: %v: %w", all[i].name, f, err)
			}
			if took := time.Since(began) - f.lasts; took > repairPatience {
				fmt.Fprintf(out, "jepsen: %s took %v more to repair\n", all[i].name, took.Round(time.Millisecond))
			}
			return nil
		}); err != nil {
			return counts, err
		}
		counts[f.kind]++
	}
}

// suffer makes a fault in one system, and repairs it.
func (s *system) suffer(ctx context.Context, f fault) error {
	hit := func(damage, mend func(c *client) error) error {
		var errs []error
		for _, i := range f.pick {
			errs = append(errs, damage(s.clients[i]))
		}
		errs = append(errs, wait.Sleep(ctx, f.lasts))
		for _, i := range f.pick {
			errs = append(errs, mend(s.clients[i]))
		}
		return errors.Join(errs...)
	}
	signal := func(sig syscall.Signal) func(*client) error {
		return func(c *client) error {
			if err := c.worker.Signal(sig); !errors.Is(err, os.ErrProcessDone) { // run reports a client that ended by itself
				return err
			}
			return nil
		}
	}
	switch f.kind {
	case clientsPaused:
		return hit(signal(syscall.SIGSTOP), signal(syscall.SIGCONT))
	case clientsKilled:
		return hit((*client).kill, (*client).start)
	case clientsParted:
		return hit((*client).part, (*client).rejoin)
	}
	victim, err := s.cluster.leader(ctx)
	if err != nil {
		return err
	}
	if slices.Contains([]string{followerPaused, followerKilled}, f.kind) {
		victim = (victim + 1 + f.pick[0]%(servers-1)) % servers
	}
	var mend func() error
	switch f.kind {
	case leaderPaused, followerPaused:
		err, mend = s.cluster.pause(victim), func() error { return s.cluster.resume(victim) }
	case leaderKilled, followerKilled:
		err, mend = s.cluster.kill(victim), func() error { return s.cluster.restart(ctx, victim) }
	case leaderParted:
		err, mend = s.cluster.part(victim), func() error { s.cluster.heal(); return nil }
	case clockStepped:
		zk, ok := s.cluster.(*zkCluster)
		if !ok { // etcd is a Go program: libfaketime does not change its clock
			return wait.Sleep(ctx, f.lasts)
		}
		err, mend = zk.step(victim, f.step), func() error { return zk.step(victim, 0) }
	}
	if err := errors.Join(err, wait.Sleep(ctx, f.lasts), mend()); err != nil {
		return err
	}
	_, err = s.cluster.leader(ctx) // so that there is a leader before the next fault
	return err
}
