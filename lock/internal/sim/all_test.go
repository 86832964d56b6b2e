// Several locks together.

package sim

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
func (p *process) together(ctx context.Context, r *rand.Rand, one step, label string) error {
	c, names := p.caller(one), one.list("lock")
	all := c.All(names)
	p.say("%s: wants %q together", label, names)
	p.taking(c, names)
	got, over, err := takeSome(ctx, p, one, label, all.Lock, all.TryLock)
	over()
	p.taking(c, nil)
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
	for hold := range got.All() {
		m := c.Mutex(hold.Name())
		h.each = append(h.each, p.granted(label, c, hold, way{lock: m.Lock, try: m.TryLock}))
	}
	if oneIn(r, 2) {
		p.work(ctx, r, one, label, h.each[r.IntN(len(h.each))])
	} else {
		select {
		case <-h.Context().Done():
			p.say("%s: %q end: %v", label, names, h.Err())
		case <-ctx.Done():
		case <-time.After(one.time("hold")):
		}
	}
	p.check()
	p.unlockTogether(label, h)
	return nil
}

// taking records what a client is taking together.
func (s *sim) taking(c *client, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[c.label] = names
}

// takeSome calls wait or try, with a deadline or without, as the step says. The caller must call
// over, which ends the context of the call.
func takeSome[H any](ctx context.Context, p *process, one step, label string, wait, try func(context.Context) (H, error)) (got H, over func(), err error) {
	within := one.time("within")
	if one.has("try") {
		p.count("tries")
		got, err = try(newCall(ctx))
		return got, func() {}, err
	}
	if within == 0 { // a wait without a deadline must be served, also after the last fault
		waits, cancel := context.WithCancel(context.WithValue(p.served, anyKey{}, ctx.Value(anyKey{})))
		stop := context.AfterFunc(ctx, func() {
			if errors.Is(context.Cause(ctx), errKilled) {
				cancel()
			}
		})
		got, err = wait(newCall(waits))
		return got, func() { stop(); cancel() }, err
	}
	if within <= 6*p.slow {
		p.count("calls given up in flight")
	}
	ctx, over = p.limit(ctx, label, within)
	begun := time.Now()
	got, err = wait(newCall(ctx))
	p.inTime(label, one.what, ctx, begun)
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
