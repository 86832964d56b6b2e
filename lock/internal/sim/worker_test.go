// Goroutines that lock and unlock.

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// worker runs the steps of one goroutine of the process until ctx ends or a call returns ErrClosed.
func (p *process) worker(ctx context.Context, label string, steps []step) {
	for _, one := range steps {
		select {
		case <-time.After(one.at - time.Since(p.begun)):
		case <-ctx.Done():
		}
		if ctx.Err() != nil || errors.Is(p.do(ctx, label, one), lock.ErrClosed) {
			return
		}
	}
}

// do runs one step of a worker. It returns the error of a take.
func (p *process) do(ctx context.Context, label string, one step) error {
	r := p.random(one.id())
	switch one.what {
	case "burst":
		p.burst(ctx, one, label)
	case "crowd":
		p.crowd(ctx, one, label)
	case "resize":
		p.resize(ctx, one, label)
	case "revoke":
		p.revoke(ctx, r, one, label)
	case "leader":
		p.askWhoLeads(ctx, one, label)
	case "observe":
		p.observeChair(ctx, label, p.caller(one))
	case "break":
		p.breakOne(ctx, r, one, label)
	case "attach":
		p.comeBack(ctx, r, one, label)
	case "together":
		return p.together(ctx, r, one, label)
	case "any", "take":
		return p.use(ctx, r, one, label)
	}
	return nil
}

// caller returns the client of the process that makes the call.
func (p *process) caller(one step) *client { return p.clients[one.number("client")%len(p.clients)] }

// use takes a lock, works with it, and unlocks or detaches it.
func (p *process) use(ctx context.Context, r *rand.Rand, one step, label string) error {
	take := p.take
	if one.what == "any" {
		take = p.takeAny
	}
	hold, err := take(ctx, r, one, label)
	if err != nil {
		return err
	}
	ticketed := hold.Name() != chair
	if ticketed && one.has("ticket") {
		if ticket, err := hold.Ticket(); err == nil {
			p.leave(r, label, ticket)
		}
	}
	p.work(ctx, r, one, label, hold)
	if ticketed && one.has("detach") {
		p.detach(ctx, r, one, label, hold)
	} else {
		p.end(r, one, label, hold)
	}
	return nil
}

// take takes one lock, and checks the result.
func (p *process) take(ctx context.Context, r *rand.Rand, one step, label string) (held, error) {
	c, name := p.caller(one), one.text("lock")
	var opts []lock.LockOption
	if ttl := one.time("ttl"); ttl > 0 {
		opts = append(opts, lock.WithTTL(ttl))
		p.count("TTLs of their own")
	}
	if oneIn(p.random("metadata of "+c.owner), 8) { // 9 kB in JSON: after a lost transaction, two of these are sent apart
		opts = append(opts, lock.WithMetadata(map[string]string{"job": strings.Repeat("\x00", 1500)}))
		p.count("large entries")
	}
	way := p.way(one, label, c, name, opts)
	got, over, err := takeSome(ctx, p, one, label, way.lock, way.try)
	over()
	if err != nil {
		p.notTaken(label, c, name, err)
		return held{}, err
	}
	return p.granted(label, c, got, way), nil
}

func (s *sim) lockWithin(ctx context.Context, label string, lock taking, d time.Duration) (*lock.Hold, error) {
	ctx, cancel := s.limit(ctx, label, d)
	defer cancel()
	begun := time.Now()
	hold, err := lock(newCall(ctx))
	s.inTime(label, "Lock", ctx, begun)
	return hold, err
}

// burst makes twenty calls at once, for one lock or for many. Their deadlines are so short that most
// give up, unless the step has a time to hold the lock: then each waits for its turn.
func (p *process) burst(ctx context.Context, one step, label string) {
	p.count("bursts")
	c := p.caller(one)
	var callers sync.WaitGroup
	for i := range 20 {
		r, label := p.random(fmt.Sprint(one.id(), i)), fmt.Sprintf("%s/%d", label, i)
		name := p.names[0]
		if one.has("many") {
			name = fmt.Sprintf("burst-%d", i)
		}
		most := 6*p.slow + 10*time.Microsecond
		if one.has("hold") {
			most = 4 * p.ttl
		}
		callers.Go(func() {
			hold, err := p.lockWithin(ctx, label, c.Mutex(name).Lock, between(r, 0, most))
			if err != nil {
				p.notTaken(label, c, name, err)
				return
			}
			h := p.granted(label, c, hold, way{})
			p.pause(r, 0, one.time("hold"))
			p.unlock(label, h)
		})
	}
	callers.Wait()
}

// work keeps a hold for a while, and uses it as the step says.
func (p *process) work(ctx context.Context, r *rand.Rand, one step, label string, h held) {
	if one.has("again") {
		p.enterAgain(r, label, h)
	}
	if one.has("doubt") {
		p.shortenInDoubt(ctx, r, label, h)
		return
	}
	if one.has("txn") {
		p.transact(ctx, r, label, h)
	}
	if one.has("proclaim") && h.way.elects {
		p.proclaim(ctx, r, label, h)
	}
	if one.has("downgrade") {
		p.downgrade(ctx, r, label, h)
	}
	for end := time.Now().Add(one.time("hold")); time.Now().Before(end); {
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
		if one.has("extend") {
			p.extend(ctx, r, label, h)
		}
		if one.has("txn") {
			p.transact(ctx, r, label, h)
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
	case !isOne(err, context.Canceled, context.DeadlineExceeded, lock.ErrLost, lock.ErrUnlocked, lock.ErrClosed) && !p.refusalLocked(h.client, err):
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
	again, err := how(newCall(ctx))
	p.say("%s: enters %s again: %v", label, h.Name(), err)
	p.mu.Lock()
	void := p.void(h)
	p.mu.Unlock()
	switch over := h.Err(); {
	case void && err != nil:
	case err != nil && over == nil && !errors.Is(err, lock.ErrClosed) && !p.refusal(h.client, err):
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
func (p *process) end(r *rand.Rand, one step, label string, h held) {
	var wg sync.WaitGroup
	if one.has("beside") {
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
