// Simulation: several locks together.

package lock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// also is a mutex that workers lock only together with other mutexes, so that there are at least
// two to choose from.
const also = "also"

// heldTogether are the holds of a worker that locked several mutexes together.
type heldTogether struct {
	*lock.Holds
	each []held
}

// together takes two or three locks at once, holds them for a while, and unlocks them.
func (p *process) together(ctx context.Context, r *rand.Rand, label string, c *client) error {
	names := p.some(r)
	all := c.All(names)
	p.say("%s: wants %q together", label, names)
	got, err := p.takeTogether(ctx, r, all)
	if err != nil {
		about := names[0]
		for _, name := range []string{foreign, remade} {
			if slices.Contains(names, name) && errors.Is(err, lock.ErrForeign) {
				about = name
			}
		}
		p.notTaken(label, c, about, err)
		return err
	}
	p.count("taken together")
	h := heldTogether{Holds: got}
	if n := len(slices.Collect(got.All())); n != len(names) {
		p.violated("%s asked for %q together and has %d of them", label, names, n)
	}
	for one := range got.All() {
		m := c.Mutex(one.Name())
		h.each = append(h.each, p.granted(label, c, one, way{lock: m.Lock, try: m.TryLock}))
	}
	switch r.IntN(3) {
	case 0:
	case 1:
		p.work(ctx, r, label, h.each[r.IntN(len(h.each))])
	default:
		select {
		case <-h.Context().Done():
			p.say("%s: %q end: %v", label, names, h.Err())
		case <-ctx.Done():
		case <-time.After(between(r, 0, p.ttl)):
		}
	}
	p.check()
	p.unlockTogether(label, h)
	return nil
}

// some returns the names of two or three mutexes, in random order.
func (p *process) some(r *rand.Rand) []string {
	names := append(slices.Clone(p.names), also)
	if oneIn(r, 25) {
		names = append(names, foreign)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == pages || name == slots })
	slices.Sort(names)
	names = slices.Compact(names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:min(len(names), 2+r.IntN(2))]
}

func (p *process) takeTogether(ctx context.Context, r *rand.Rand, all *lock.All) (*lock.Holds, error) {
	holds, over, err := takeSome(ctx, p, r, all.Lock, all.TryLock)
	over()
	return holds, err
}

// takeSome calls wait or try, with a deadline or without. The caller must call over, which ends the
// context of the call.
func takeSome[H any](ctx context.Context, p *process, r *rand.Rand, wait, try func(context.Context) (H, error)) (got H, over func(), err error) {
	switch r.IntN(5) {
	case 0:
		got, err = try(ctx)
		return got, func() {}, err
	case 1:
		ctx, over = p.limit(ctx, p.label, between(r, 0, 2*p.ttl))
	case 2: // gives up while a request is in flight
		ctx, over = p.limit(ctx, p.label, between(r, 0, 6*p.slow))
	default: // a wait without a deadline must be served, also after the last fault
		life := ctx
		waits, cancel := context.WithCancel(p.served)
		stop := context.AfterFunc(life, func() {
			if errors.Is(context.Cause(life), errKilled) {
				cancel()
			}
		})
		ctx, over = waits, func() { stop(); cancel() }
	}
	got, err = wait(ctx)
	return got, over, err
}

// unlockTogether unlocks holds, and checks the result of each.
func (s *sim) unlockTogether(label string, h heldTogether) {
	overtaken := make([]bool, len(h.each))
	s.mu.Lock()
	for i, one := range h.each {
		overtaken[i] = s.overtaken(one)
	}
	s.mu.Unlock()
	err := h.Unlock()
	for i, one := range h.each {
		s.unlocked(label, one, overtaken[i], about(one.Name(), err))
	}
}

// about returns the error about the named lock from err, the joined errors of Holds.Unlock, or nil.
// If err is not joined, about returns err.
func about(name string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	for _, one := range joined.Unwrap() {
		var lost *lock.LostError
		var unconfirmed *lock.UnlockError
		switch {
		case errors.As(one, &lost) && lost.Lock != name, errors.As(one, &unconfirmed) && unconfirmed.Lock != name:
		default:
			return one
		}
	}
	return nil
}
