package crew

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// Fault breaks something. Do repairs the damage before it returns, also if ctx ends. Do makes all
// random choices before it acts, so that the same seed gives the same choices. done is true if the
// fault happened as its name says.
type Fault struct {
	Name string
	Do   func(ctx context.Context, r *rand.Rand) (done bool, err error)
}

// Way is a way to break something, and to mend it.
type Way[V any] struct{ Damage, Mend func([]V) error }

// Pick chooses what a fault hits. Its random choices come before it waits for anything.
type Pick[V any] func(ctx context.Context, r *rand.Rand) ([]V, error)

// Break returns a fault that damages what pick chooses, and mends it after a random time from least
// to most.
func Break[V any](name string, least, most time.Duration, pick Pick[V], way Way[V]) Fault {
	return Fault{name, func(ctx context.Context, r *rand.Rand) (bool, error) {
		d := wait.Between(r, least, most)
		victims, err := pick(ctx, r)
		if err != nil {
			return false, err
		}
		if err = way.Damage(victims); err == nil {
			_ = wait.Sleep(ctx, d)
		}
		return err == nil, errors.Join(err, way.Mend(victims))
	}}
}

// Ways to break clients.
var (
	ClientKilled = Way[*Client]{Each(Always((*Client).Kill)), Each((*Client).Start)}
	ClientPaused = Way[*Client]{Each((*Client).Pause), Each((*Client).Resume)}
	ClientParted = Way[*Client]{Each(func(c *Client) error { return Stalled.Damage(c.Relays) }), Each(func(c *Client) error { return Stalled.Mend(c.Relays) })}
)

// Stalled holds back what relays are to pass on, and delivers it later.
var Stalled = Way[*zkserver.Relay]{Each(Always((*zkserver.Relay).Stall)), Each(Always((*zkserver.Relay).Resume))}

// Servers has the ways to break a cluster's servers. Ctx limits restarts.
type Servers struct {
	Cluster
	Ctx context.Context
}

func (s Servers) restart() func([]int) error {
	return AtOnce(func(i int) error { return s.Restart(s.Ctx, i) }) // each may wait for the others
}

func (s Servers) Killed() Way[int]    { return Way[int]{Each(s.Kill), s.restart()} }
func (s Servers) Paused() Way[int]    { return Way[int]{Each(s.Pause), Each(s.Resume)} }
func (s Servers) Parted() Way[int]    { return Way[int]{Each(s.Part), Each(s.Heal)} }
func (s Servers) Restarted() Way[int] { return Way[int]{func([]int) error { return nil }, s.restart()} }

// Ranked picks the servers of c at the indexes [from:to] of a list: the leader, then the others in
// random order. If c has fewer, it picks those that there are.
func Ranked(c Cluster, from, to int) Pick[int] {
	return func(ctx context.Context, r *rand.Rand) ([]int, error) {
		order := r.Perm(len(c.Addrs()))
		leader, err := c.Leader(ctx)
		order = slices.DeleteFunc(order, func(i int) bool { return i == leader })
		order = slices.Insert(order, 0, leader)
		return order[min(from, len(order)):min(to, len(order))], err
	}
}

// Each returns a function that calls do for one victim after the other and joins the errors.
func Each[V any](do func(V) error) func([]V) error {
	return func(victims []V) error {
		var errs []error
		for _, v := range victims {
			errs = append(errs, do(v))
		}
		return errors.Join(errs...)
	}
}

// AtOnce returns a function that calls do for all victims in parallel and joins the errors.
func AtOnce[V any](do func(V) error) func([]V) error {
	return func(victims []V) error {
		return wait.All(len(victims), func(i int) error { return do(victims[i]) })
	}
}

// Always returns a function for [Each] or [AtOnce] from one that cannot fail.
func Always[V any](do func(V)) func(V) error {
	return func(v V) error { do(v); return nil }
}

// Together returns a fault that makes all the faults at the same moment, with the same random
// choices in each.
func Together(name string, faults ...Fault) Fault {
	return Fault{name, func(ctx context.Context, r *rand.Rand) (bool, error) {
		seed := r.Uint64()
		done := make([]bool, len(faults))
		err := wait.All(len(faults), func(i int) (err error) {
			done[i], err = faults[i].Do(ctx, rand.New(rand.NewPCG(seed, 0)))
			return err
		})
		for _, d := range done {
			if !d {
				return false, err
			}
		}
		return true, err
	}}
}

// Series makes one fault at a time, with from Least to Most of quiet before each.
type Series struct {
	Least, Most time.Duration
	Faults      []Fault
}

// Plague makes the faults of each series, until ctx ends: all of them in random order, then all again
// in another order. Each series has a stream of the seed. Plague calls made after each fault that
// happened as its name says, with the index of the series, one call at a time. A series without faults
// ends at once, and an error ends all.
func Plague(ctx context.Context, seed uint64, all []Series, made func(series int, f Fault, began, ended monotonic.Instant)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	return wait.All(len(all), func(i int) error {
		err := all[i].plague(ctx, rand.New(rand.NewPCG(seed, uint64(i))), func(f Fault, began, ended monotonic.Instant) {
			mu.Lock()
			defer mu.Unlock()
			made(i, f, began, ended)
		})
		if err != nil {
			cancel()
		}
		return err
	})
}

func (s Series) plague(ctx context.Context, r *rand.Rand, made func(f Fault, began, ended monotonic.Instant)) error {
	for len(s.Faults) > 0 {
		for _, i := range r.Perm(len(s.Faults)) {
			if wait.Sleep(ctx, wait.Between(r, s.Least, s.Most)) != nil {
				return nil
			}
			began := monotonic.Now()
			done, err := s.Faults[i].Do(ctx, r)
			if err != nil {
				if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
					return nil
				}
				return fmt.Errorf("%s: %w", s.Faults[i].Name, err)
			}
			if done {
				made(s.Faults[i], began, monotonic.Now())
			}
		}
	}
	return nil
}
