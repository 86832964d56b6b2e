package crew

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// Fault breaks something. Do repairs the damage before it returns, also if ctx ends. Do makes all
// random choices before it acts, so that the same seed gives the same choices. done is true if the
// fault happened as its name says.
type Fault struct {
	Name string
	Do   func(ctx context.Context, r *rand.Rand) (done bool, err error)
}

// Break returns a fault that damages victims, and mends them after a random time from least to
// most. pick chooses the victims; its random choices come before it waits for anything.
func Break[V any](name string, least, most time.Duration, pick func(ctx context.Context, r *rand.Rand) ([]V, error), damage, mend func([]V) error) Fault {
	return Fault{name, func(ctx context.Context, r *rand.Rand) (bool, error) {
		d := wait.Between(r, least, most)
		victims, err := pick(ctx, r)
		if err != nil {
			return false, err
		}
		if err = damage(victims); err == nil {
			_ = wait.Sleep(ctx, d)
		}
		return err == nil, errors.Join(err, mend(victims))
	}}
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

// Plague makes faults, one at a time, until ctx ends: all of them in random order, then all again in
// another order. Before each fault it waits for a random time from least to most. It calls made
// after each fault that happened as its name says.
func Plague(ctx context.Context, r *rand.Rand, faults []Fault, least, most time.Duration, made func(f Fault, began, ended monotonic.Instant)) error {
	for {
		for _, i := range r.Perm(len(faults)) {
			if wait.Sleep(ctx, wait.Between(r, least, most)) != nil {
				return nil
			}
			began := monotonic.Now()
			done, err := faults[i].Do(ctx, r)
			if err != nil {
				if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
					return nil
				}
				return fmt.Errorf("%s: %w", faults[i].Name, err)
			}
			if done {
				made(faults[i], began, monotonic.Now())
			}
		}
	}
}
