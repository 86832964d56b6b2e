// The random history of a seed.

package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// drawer draws the history of a seed.
type drawer struct {
	history
	processes  int
	contenders int  // of other libraries
	pools      bool // workers take any one of several locks, too
	tells      bool // some transactions get an operation's error: the session has ended
	weighs     bool // many requests for permits ask for several
}

// draw returns the random history of a seed. If only is not empty, it is the kind.
func draw(seed uint64, only kind) history {
	d := &drawer{}
	d.seed = seed
	r := d.random("plan")
	if d.kind = kinds[r.IntN(len(kinds))]; only != "" {
		d.kind = only
	}
	d.drawPlan(r)
	for i := range d.processes {
		d.drawProcess(fmt.Sprint("p", i))
	}
	for i := range d.contenders {
		d.drawContender(fmt.Sprint("other", i))
	}
	d.drawSweeps()
	d.drawFaults()
	d.drawDataFaults()
	if d.kind == strangers {
		d.each("stranger", 0, 5500*time.Millisecond, func(r *rand.Rand, s step) (step, time.Duration) { s.what = "remake"; return s, 0 })
	}
	slices.SortStableFunc(d.steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return d.history
}

func (d *drawer) random(part string) *rand.Rand { return random(d.seed, part) }

// span is between, rounded so that it is short as text.
func span(r *rand.Rand, least, most time.Duration) time.Duration {
	return max(least, between(r, least, most).Round(10*time.Microsecond))
}

func (d *drawer) add(s step) { d.steps = append(d.steps, s) }

// each adds steps of one actor, with random times between them. next returns the step, and how long
// it lasts.
func (d *drawer) each(who string, least, most time.Duration, next func(r *rand.Rand, s step) (step, time.Duration)) {
	r, least := d.random(who), max(least, time.Millisecond)
	for at := between(r, least, most); at < d.lasts; at += between(r, least, most) {
		s, lasts := next(r, step{at: at.Truncate(time.Millisecond), who: who})
		d.add(s)
		at += lasts
	}
}

func (d *drawer) drawPlan(r *rand.Rand) {
	d.ttl = between(r, 2*time.Second, 12*time.Second).Truncate(time.Millisecond)
	d.grace = between(r, lock.MinGrace, d.ttl/4).Truncate(time.Millisecond)
	d.slow = span(r, 0, 20*time.Millisecond)
	d.election = span(r, 0, 3*time.Second)
	d.lasts = span(r, 20*time.Second, 90*time.Second)
	d.members = []int{1, 1, 3}[r.IntN(3)]
	d.names = []string{"a", "b/c", "b"}[:1+r.IntN(3)]
	d.processes = 2 + r.IntN(5)
	d.contenders = []int{0, 0, 1, 2}[r.IntN(4)]
	d.counts, d.slews, d.outlives = !oneIn(r, 4), oneIn(r, 4), oneIn(r, 3)
	d.pools, d.tells, d.keeps = oneIn(r, 3), oneIn(r, 4), oneIn(r, 6)
	d.window, d.permits, d.weighs = lock.NoLocalWindow, usualPermits, oneIn(r, 2)
	switch r.IntN(4) {
	case 1, 2:
		d.window = lock.DefaultLocalWindow
	case 3:
		d.window = between(r, time.Millisecond, min(time.Second, d.ttl/3)).Truncate(time.Millisecond)
	}
	if oneIn(r, 6) { // a write through the leader still takes a small part of a TTL
		d.slow = span(r, 60*time.Millisecond, min(180*time.Millisecond, d.ttl/30))
	}
	if oneIn(r, 3) {
		d.permits = manyPermits
	}
	switch d.kind {
	case forgetting:
		d.contenders = 0 // their connections do not come back
	case elections:
		d.members = 3
	case strangers:
		d.early = oneIn(r, 3)
	case stepped: // each client must know the leader's clock well
		d.slow = min(d.slow, 2*time.Millisecond)
		d.lasts = span(r, 4*d.ttl, 10*d.ttl)
	case calm:
		d.lasts = span(r, 3*time.Second, 30*time.Second)
	}
	d.lasts = d.lasts.Truncate(time.Millisecond)
	d.drawNames(r)
}

func (d *drawer) drawNames(r *rand.Rand) {
	names := slices.Clone(d.names)
	if oneIn(r, 4) {
		names = append(names, limited)
	}
	if oneIn(r, 4) || d.contenders > 0 {
		names = append(names, found)
	}
	if d.kind == strangers {
		names = append(names, remade, remade)
	}
	for _, name := range []string{pages, slots, chair} {
		if oneIn(r, 3) || d.permits == manyPermits && name == slots {
			names = append(names, name, name)
		}
	}
	if d.quiet() {
		d.outlives = false
		// Lock "b" is above lock "b/c". If "b" is unlocked for the last time before "b/c", its node
		// stays.
		names = slices.DeleteFunc(names, func(name string) bool { return name == "b" })
	}
	d.names = names
}

// drawProcess draws the lives of a process. Whenever it is killed or closed, it starts again with
// new clients.
func (d *drawer) drawProcess(name string) {
	r := d.random(name)
	var at time.Duration
	for life := 0; at < d.lasts; life++ {
		end := at + span(r, 5*time.Second, 90*time.Second).Truncate(time.Millisecond)
		if d.kind == stepped {
			end = d.lasts
		}
		d.add(step{at: at, who: name, what: "start"}.with("life", life).
			with("clients", []int{1, 1, 1, 2, 3}[r.IntN(5)]).with("shared", oneIn(r, 4) && d.kind != forgetting))
		for w := range 1 + r.IntN(3) {
			d.drawWorker(fmt.Sprintf("%s/%d", name, w), at, min(end, d.lasts))
		}
		if slices.Contains(d.names, chair) && oneIn(r, 2) {
			d.add(step{at: at, who: name + "/o", what: "observe"})
		}
		if !d.quiet() {
			d.drawDisturbances(r, name, at, min(end, d.lasts))
		}
		switch {
		case end < d.lasts && !d.quiet() && r.IntN(3) > 0:
			d.add(step{at: end, who: name, what: "kill"})
		case end < d.lasts || oneIn(r, 3):
			d.add(step{at: min(end, d.lasts), who: name, what: "close"}.with("burst", oneIn(r, 2)))
		}
		at = end
	}
}

// drawDisturbances draws faults of a process itself. Strangers' histories have only those that
// delay nothing, see [strangers].
func (d *drawer) drawDisturbances(r *rand.Rand, name string, from, to time.Duration) {
	for at := from; ; {
		at = (at + between(r, time.Second, 20*time.Second)).Truncate(time.Millisecond)
		if at >= to {
			return
		}
		s, lasts := step{at: at, who: name}, span(r, 0, 2*d.ttl)
		switch what := r.IntN(4); {
		case what == 0 && d.kind != strangers: // like kill -STOP or a garbage collection: shorter or longer than its leases
			s.what = "stop"
			d.add(s.with("for", lasts))
			at += lasts
		case what == 1 && d.kind != strangers: // the machine sleeps: its monotonic clock stands still
			s.what = "suspend"
			d.add(s.with("for", lasts))
			at += lasts
		case what < 3:
			by := span(r, -time.Hour, time.Hour)
			if !d.counts {
				by = by.Abs() // a step back would hide the suspend, which nothing else shows
			}
			s.what = "setclock"
			d.add(s.with("by", by))
		}
	}
}

// drawWorker draws the operations of one goroutine during one life of its process.
func (d *drawer) drawWorker(who string, from, to time.Duration) {
	r := d.random(fmt.Sprint(who, from))
	for at := from + between(r, 0, d.ttl/4); at < to; at += between(r, time.Millisecond, d.ttl/4) {
		at = at.Truncate(time.Millisecond)
		do := func(what string) step { return step{at: at, who: who, what: what}.with("client", r.IntN(3)) }
		if oneIn(r, 20) {
			s := do("burst").with("many", oneIn(r, 2))
			if !s.has("many") && oneIn(r, 2) { // local handoffs, inside the window and after it
				s = s.with("hold", span(r, 0, 3*max(d.window, lock.DefaultLocalWindow)))
			}
			d.add(s)
			continue
		}
		if slices.Contains(d.names, slots) && oneIn(r, 12) {
			d.add(do("resize").with("to", slotsAsked+r.IntN(d.permits+1)).with("within", span(r, 0, 2*d.ttl)))
		}
		if d.permits == manyPermits && oneIn(r, 12) {
			d.add(do("crowd").with("dies", !d.quiet() && d.kind != strangers && oneIn(r, 2)).with("hold", span(r, d.ttl/4, d.ttl)))
		}
		if oneIn(r, 3) {
			d.add(do("revoke").with("lock", d.anyName(r)).with("within", span(r, 0, d.ttl)))
		}
		if slices.Contains(d.names, chair) && oneIn(r, 4) {
			d.add(do("leader").with("within", span(r, 0, d.ttl)))
		}
		if !d.quiet() && oneIn(r, 6) {
			d.add(do("break").with("within", span(r, 0, 3*d.ttl)))
		}
		if oneIn(r, 8) {
			d.add(do("attach").with("within", span(r, 0, 3*d.ttl)))
			continue
		}
		s := d.drawUse(r, d.drawTake(r, do))
		d.add(s)
		at += s.time("hold")
	}
}

func (d *drawer) anyName(r *rand.Rand) string { return d.names[r.IntN(len(d.names))] }

// drawTake draws what an operation takes, and in which way.
func (d *drawer) drawTake(r *rand.Rand, do func(string) step) step {
	if oneIn(r, 6) {
		return do("together").with("lock", d.some(r))
	}
	if d.pools && oneIn(r, 3) {
		return do("any").with("lock", d.some(r))
	}
	name := d.anyName(r)
	if oneIn(r, 25) {
		name = foreign
	}
	s := do("take").with("lock", name)
	switch name {
	case chair:
		return s.with("priority", r.IntN(4))
	case slots:
		n := 1
		if d.weighs || oneIn(r, 12) {
			n += r.IntN(slotsAsked)
		}
		return s.with("permits", n)
	case pages:
		return s.with("read", r.IntN(3) > 0)
	}
	return s.with("barge", oneIn(r, 5))
}

// some returns the names of two or three mutexes, in random order.
func (d *drawer) some(r *rand.Rand) []string {
	names := append(slices.Clone(d.names), also)
	if oneIn(r, 25) {
		names = append(names, foreign)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == pages || name == slots })
	slices.Sort(names)
	names = slices.Compact(names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:min(len(names), 2+r.IntN(2))]
}

// drawUse draws how long a take waits, and what is done with the hold.
func (d *drawer) drawUse(r *rand.Rand, s step) step {
	switch r.IntN(5) {
	case 0:
		s = s.with("try", true)
	case 1:
		s = s.with("within", span(r, time.Millisecond, 2*d.ttl))
	case 2: // gives up while a request is in flight
		s = s.with("within", span(r, 10*time.Microsecond, max(10*time.Microsecond, 6*d.slow)))
	}
	if s.what == "take" && oneIn(r, 4) {
		s = s.with("ttl", d.drawTTL(r))
	}
	most := []time.Duration{0, 10 * time.Millisecond, d.ttl / 2, 2 * d.ttl}[r.IntN(4)]
	name := s.text("lock")
	if name == limited {
		most *= 2 // longer than the policy allows
	}
	s = s.with("hold", span(r, 0, most)).with("again", name != slots && oneIn(r, 6)).
		with("extend", oneIn(r, 3)).with("txn", oneIn(r, 3)).with("beside", oneIn(r, 8))
	if d.kind == faulty {
		s = s.with("doubt", oneIn(r, 8))
	}
	switch {
	case name == chair:
		return s.with("proclaim", oneIn(r, 2))
	case s.what == "together":
		return s
	case name == pages && !s.has("read"):
		s = s.with("downgrade", oneIn(r, 3))
	}
	return s.with("ticket", !d.quiet() && oneIn(r, 8)).with("detach", oneIn(r, 8))
}

// drawTTL returns a random TTL. If nothing may be lost, the TTL leaves time to renew. Over a slow
// link it leaves time for a write and a list: otherwise no waiter could ever enter.
func (p plan) drawTTL(r *rand.Rand) time.Duration {
	least := lock.MinTTL
	if p.distant() {
		least = max(least, 20*p.slow)
	}
	if p.quiet() {
		least = time.Second
	}
	return between(r, least, 2*p.ttl).Truncate(time.Millisecond)
}
