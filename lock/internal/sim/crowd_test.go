// More holders of a semaphore than a try reads.

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// sampled is the number of holders that a try reads before it takes all others for alive.
const sampled = 16

// crowd takes about as many permits of slots as there are, each with a hold of its own, and keeps
// them for a while. If it dies, its client is cut off until the leases have ended. Meanwhile another
// client tries to get in.
func (p *process) crowd(ctx context.Context, one step, label string) {
	p.count("crowds of holders")
	r, c, over, dies := p.random(one.id()), p.caller(one), time.Now().Add(one.time("hold")), one.has("dies")
	label += one.at.String()
	if dies {
		over = over.Add(2*p.ttl + p.grace)
	}
	stays, cancel := context.WithDeadline(ctx, over)
	defer cancel()
	var all sync.WaitGroup
	for i := range manyPermits - r.IntN(4) {
		all.Go(func() { p.stay(stays, fmt.Sprintf("%s/%d", label, i), c) })
	}
	p.pause(r, 0, p.ttl/8)
	if dies {
		p.say("fault: %s is cut off with its crowd", c.label)
		if err := p.Partition(c.label); err != nil {
			p.Error(err)
		}
	}
	tries := p.clients[len(p.clients)-1]
	if late := label + "/late"; p.kind != stepped { // else it might sample the clock only after the step
		tries = p.client(late, late, p.sim.clock(late))
		defer p.closeClient(tries)
	}
	for stays.Err() == nil {
		p.tryBehind(r, tries)
		p.pause(r, 0, p.ttl/4)
	}
	if dies && !errors.Is(context.Cause(ctx), errKilled) { // a killed process stays cut off
		p.Heal(c.label)
	}
	all.Wait()
}

// stay takes a permit and keeps it until ctx ends.
func (p *process) stay(ctx context.Context, label string, c *client) {
	way := permits(c.Semaphore(slots, p.permits), 1)
	hold, err := p.lockWithin(ctx, label, way.lock, p.ttl)
	if err != nil {
		p.notTaken(label, c, slots, err)
		return
	}
	h := p.granted(label, c, hold, way)
	select {
	case <-h.Context().Done():
	case <-ctx.Done():
	}
	p.unlock(label, h)
}

// tryBehind tries to get permits once, and counts how many holders were ahead.
func (p *process) tryBehind(r *rand.Rand, c *client) {
	n := 1 + r.IntN(slotsAsked)
	way := permits(c.Semaphore(slots, p.permits), n)
	held, dead := p.permitsAhead()
	full := held > p.capacity()-n
	hold, err := way.try(newCall(p.served))
	if held > sampled && full {
		p.count("tries behind more holders than they sample")
	}
	if dead > sampled {
		p.count("tries behind more dead holders than they sample")
	}
	if err != nil {
		p.notTaken(c.owner, c, slots, err)
		return
	}
	if full && dead > sampled {
		p.count("permits got behind more dead holders than a try samples")
	}
	p.unlock(c.owner, p.granted(c.owner, c, hold, way))
}

// permitsAhead returns the number of permits of all entries of slots, and how many entries have
// expired.
func (s *sim) permitsAhead() (permits, dead int) {
	for _, n := range s.Dump("/locks/" + slots) {
		record, ok := recordOf(n)
		if !ok {
			continue
		}
		permits += weightOf(n.Path[len("/locks/"+slots+"/"):])
		if time.Since(n.Written) > time.Duration(record.TTL)*time.Millisecond+s.grace {
			dead++
		}
	}
	return permits, dead
}
