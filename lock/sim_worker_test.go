// Simulation: goroutines that lock and unlock.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// worker runs one goroutine of the process until ctx ends or a call returns ErrClosed. It locks and
// unlocks at random, and sometimes resizes, revokes or force-releases.
func (p *process) worker(ctx context.Context, label string) {
	r := p.random(label)
	for turn := 0; ctx.Err() == nil; turn++ {
		c := p.clients[r.IntN(len(p.clients))]
		if oneIn(r, 20) {
			p.burst(ctx, r, label, c)
			continue
		}
		if slices.Contains(p.names, slots) && oneIn(r, 12) {
			p.resize(ctx, r, label, c)
		}
		if own := p.random(fmt.Sprint("revocation by ", label, r.Uint64())); oneIn(own, 3) {
			p.revoke(ctx, own, label, c)
		}
		if slices.Contains(p.names, chair) && oneIn(r, 4) {
			p.askWhoLeads(ctx, r, label, c)
		}
		if own := p.random(fmt.Sprint("break by ", label, r.Uint64())); !p.quiet() && oneIn(own, 6) {
			p.breakOne(ctx, own, label, c)
		}
		if oneIn(r, 8) {
			p.comeBack(ctx, r, label, c)
			continue
		}
		if oneIn(r, 6) {
			if err := p.together(ctx, r, label, c); errors.Is(err, lock.ErrClosed) {
				return
			} else if err != nil {
				p.pause(r, 0, p.ttl/4)
			}
			continue
		}
		take := p.take
		if p.pools && oneIn(p.random(fmt.Sprint("any by ", label, turn)), 3) {
			take = p.takeAny
		}
		hold, err := take(ctx, r, label, c)
		if errors.Is(err, lock.ErrClosed) {
			return
		}
		if err != nil {
			p.pause(r, 0, p.ttl/4)
			continue
		}
		ticketed, leaving := hold.Name() != chair, r
		if hold.Name() == pages || hold.Name() == slots {
			leaving = p.random(fmt.Sprint("leaving by ", label, hold.Token()))
		}
		if ticketed && !p.quiet() && oneIn(leaving, 8) {
			if ticket, err := hold.Ticket(); err == nil {
				p.leave(leaving, label, ticket)
			}
		}
		p.work(ctx, r, label, hold)
		if ticketed && oneIn(leaving, 8) {
			p.detach(ctx, leaving, label, hold)
		} else {
			p.end(r, label, hold)
		}
		if oneIn(r, 2) {
			p.pause(r, 0, p.ttl/2)
		}
	}
}

// take takes a random lock in a random way, and checks the result.
func (p *process) take(ctx context.Context, r *rand.Rand, label string, c *client) (held, error) {
	name := p.names[r.IntN(len(p.names))]
	if oneIn(r, 25) {
		name = foreign
	}
	var opts []lock.LockOption
	if oneIn(r, 4) {
		opts = append(opts, lock.WithTTL(p.drawTTL(r)))
		p.count("TTLs of their own")
	}
	if oneIn(p.random("metadata of "+c.owner), 8) { // 9 kB in JSON: after a lost transaction, two of these are sent apart
		opts = append(opts, lock.WithMetadata(map[string]string{"job": strings.Repeat("\x00", 1500)}))
		p.count("large entries")
	}
	way := p.way(r, label, c, name, opts)
	// A wait without a deadline must be served, also after the last fault.
	waits, cancel := context.WithCancel(p.served)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errKilled) {
			cancel()
		}
	})()
	var got *lock.Hold
	var err error
	switch r.IntN(5) {
	case 0:
		p.count("tries")
		got, err = way.try(ctx)
	case 1:
		got, err = p.lockWithin(ctx, label, way.lock, between(r, 0, 2*p.ttl))
	case 2: // gives up while a request is in flight
		p.count("calls given up in flight")
		got, err = p.lockWithin(ctx, label, way.lock, between(r, 0, 6*p.slow))
	default:
		got, err = way.lock(waits)
	}
	if err != nil {
		p.notTaken(label, c, name, err)
		return held{}, err
	}
	return p.granted(label, c, got, way), nil
}

// drawTTL returns a random TTL. If nothing may be lost, the TTL leaves time to renew. Over a slow
// link it leaves time for a write and a list: otherwise no waiter could ever enter.
func (p *process) drawTTL(r *rand.Rand) time.Duration {
	least := lock.MinTTL
	if p.distant {
		least = max(least, 20*p.slow)
	}
	if p.quiet() {
		least = time.Second
	}
	return between(r, least, 2*p.ttl).Truncate(time.Millisecond)
}

func (s *sim) lockWithin(ctx context.Context, label string, lock taking, d time.Duration) (*lock.Hold, error) {
	ctx, cancel := s.limit(ctx, label, d)
	defer cancel()
	begun := time.Now()
	hold, err := lock(ctx)
	s.inTime(label, "Lock", ctx, begun)
	return hold, err
}

// burst makes twenty calls at once, for one lock or for many, with deadlines so short that most
// give up.
func (p *process) burst(ctx context.Context, r *rand.Rand, label string, c *client) {
	p.count("bursts")
	many, burst := oneIn(r, 2), r.Uint64()
	var callers sync.WaitGroup
	for i := range 20 {
		r, label := p.random(fmt.Sprint(label, burst, i)), fmt.Sprintf("%s/%d", label, i)
		name := p.names[0]
		if many {
			name = fmt.Sprintf("burst-%d", i)
		}
		callers.Go(func() {
			hold, err := p.lockWithin(ctx, label, c.Mutex(name).Lock, between(r, 0, 6*p.slow+10*time.Microsecond))
			if err != nil {
				p.notTaken(label, c, name, err)
				return
			}
			p.unlock(label, p.granted(label, c, hold, way{}))
		})
	}
	callers.Wait()
}

// work keeps a hold for a while, and uses it in random ways.
func (p *process) work(ctx context.Context, r *rand.Rand, label string, h held) {
	if oneIn(r, 6) && h.Name() != slots {
		p.enterAgain(r, label, h)
	}
	if p.kind == faulty && oneIn(r, 8) {
		p.shortenInDoubt(ctx, r, label, h)
		return
	}
	own := p.random(fmt.Sprint("transactions of ", label, h.Token()))
	if oneIn(own, 3) {
		p.transact(ctx, own, label, h)
	}
	if h.way.elects && oneIn(r, 2) {
		p.proclaim(ctx, r, label, h)
	}
	if h.Name() == pages && !h.way.reads && oneIn(r, 3) {
		p.downgrade(ctx, r, label, h)
	}
	most := []time.Duration{0, 10 * time.Millisecond, p.ttl / 2, 2 * p.ttl}[r.IntN(4)]
	if h.Name() == limited {
		most *= 2 // longer than the policy allows
	}
	if most == 0 {
		return
	}
	end := time.Now().Add(between(r, 0, most))
	for time.Now().Before(end) {
		select {
		case <-h.Context().Done():
			p.say("%s: %s ends: %v", label, h.Name(), h.Err())
			return
		case <-ctx.Done():
			return
		case <-h.asked:
			p.count("given up when asked")
			return
		case <-time.After(min(time.Until(end), between(r, 0, p.ttl))):
		}
		if oneIn(r, 3) {
			p.extend(ctx, r, label, h)
		}
		if oneIn(own, 2) {
			p.transact(ctx, own, label, h)
		}
		p.check()
	}
}

// extend requests a longer or shorter lease, and checks the result.
func (p *process) extend(ctx context.Context, r *rand.Rand, label string, h held) {
	ttl, before := p.drawTTL(r), h.Remaining()
	limited, cancel := p.limit(ctx, label, between(r, 0, p.ttl))
	defer cancel()
	begun := time.Now()
	err := h.Extend(limited, ttl)
	p.inTime(label, "Extend", limited, begun)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sayLocked("%s: %s extended to %v: %v", label, h.Name(), ttl, err)
	switch {
	case err == nil && ttl < before:
		p.tally.count("leases shortened", 1)
	case err == nil:
		p.tally.count("leases extended", 1)
	case !isOne(err, context.Canceled, context.DeadlineExceeded, lock.ErrLost, lock.ErrUnlocked, lock.ErrClosed) && !p.refused[h.client.label]:
		p.violatedLocked("%s: extend %s to %v: %v", label, h.Name(), ttl, err)
	}
}

// shortenInDoubt requests a shorter lease, and loses the reply. Then it keeps the hold until the
// hold or ctx ends, and at most for twice p.ttl.
func (p *process) shortenInDoubt(ctx context.Context, r *rand.Rand, label string, h held) {
	left := h.Remaining().Truncate(time.Millisecond)
	if left <= lock.MinTTL {
		return
	}
	p.leaveInDoubt(r, h)
	limited, cancel := p.limit(ctx, label, 2*time.Second)
	defer cancel()
	ttl := between(r, lock.MinTTL, left).Truncate(time.Millisecond)
	err := h.Extend(limited, ttl)
	p.say("%s: %s shortened to %v: %v", label, h.Name(), ttl, err)
	select {
	case <-h.Context().Done():
	case <-ctx.Done():
	case <-time.After(2 * p.ttl):
	}
}

// enterAgain reenters a lock with the context of its hold, sometimes after a step of the wall
// clock. While the hold is valid, the reentry must succeed. If the hold is in doubt, it must be
// confirmed first.
func (p *process) enterAgain(r *rand.Rand, label string, h held) {
	if !p.quiet() && oneIn(r, 4) {
		d := between(r, 0, time.Hour)
		p.say("%s has its wall clock set by %v", p.label, d)
		p.clock.step(d)
	}
	ctx, cancel := p.limit(h.Context(), label, 6*p.ttl)
	defer cancel()
	how := h.way.lock
	if h.way.elects {
		how = h.client.Mutex(chair).Lock
	}
	if oneIn(r, 3) {
		how = h.way.try
	}
	again, err := how(ctx)
	p.say("%s: enters %s again: %v", label, h.Name(), err)
	p.mu.Lock()
	void := p.void(h)
	p.mu.Unlock()
	switch over := h.Err(); {
	case void && err != nil:
	case err != nil && over == nil && !errors.Is(err, lock.ErrClosed) && !p.wasRefused(h.client):
		p.violated("%s cannot enter %s again, which it holds: %v", label, h.Name(), err)
	case err != nil:
	case again.Token() != h.Token() && over == nil && !void && !p.clock.sleptWithin(p.toWake()):
		p.violated("%s entered %s by token %v again and got token %v", label, h.Name(), h.Token(), again.Token())
	default:
		p.count("entered again")
		p.pause(r, 0, p.ttl/10)
		if err := again.Unlock(); err != nil && h.Err() == nil {
			p.violated("%s: leave %s, which was entered twice: %v", label, h.Name(), err)
		}
	}
}

// end unlocks a hold, sometimes while an Extend and a transaction are in flight.
func (p *process) end(r *rand.Rand, label string, h held) {
	var wg sync.WaitGroup
	if oneIn(r, 8) {
		p.count("extended beside an unlock")
		wg.Go(func() { p.extend(p.until, p.random(fmt.Sprint(label, h.Token())), label, h) })
		wg.Go(func() { p.transact(p.until, p.random(fmt.Sprint("last transaction of ", label, h.Token())), label, h) })
		if oneIn(r, 2) {
			time.Sleep(between(r, 0, 3*p.slow))
		}
	}
	p.unlock(label, h)
	wg.Wait()
}
