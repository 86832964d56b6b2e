// Random faults, and what other programs do.

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// drawContender draws a contender of another library.
func (d *drawer) drawContender(who string) {
	d.each(who, 0, 5*time.Second, func(r *rand.Rand, s step) (step, time.Duration) {
		name := found
		if others := d.ordinary(); !d.quiet() && oneIn(r, 2) {
			name = others[r.IntN(len(others))] // if it leaves last, no client deletes the parent
		}
		s.what = "contend"
		s = s.with("lock", name).with("kazoo", oneIn(r, 2)).with("within", span(r, 0, 4*d.ttl)).with("hold", span(r, 0, d.ttl))
		return s, s.time("hold")
	})
}

// ordinary returns the names of locks whose parents only Holdfast creates.
func (p plan) ordinary() []string {
	return slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return name == found || name == remade })
}

func (d *drawer) drawSweeps() {
	if d.kind == calm {
		return
	}
	once := d.kind != stepped && oneIn(d.random("once"), 4)
	d.add(step{who: "reaper", what: "sweep"})
	d.each("reaper", time.Second, 15*time.Second, func(_ *rand.Rand, s step) (step, time.Duration) {
		s.what = "sweep"
		return s.with("fresh", once), 0
	})
}

// drawFaults draws the faults of the network and the servers, one after the other.
func (d *drawer) drawFaults() {
	var all []string
	switch d.kind {
	case calm, stepped:
		return
	case strangers:
		all = []string{"cut", "cut", "expire", "expire", "clock", "lose", "lose", "losewatches", "refusewatches"}
	case forgetting:
		all = []string{"cut", "expire", "partition", "clock", "lose", "losewatches"}
	case elections:
		all = []string{"cut", "expire", "partition", "clock", "leader", "leader", "restart", "lag", "land", "lose", "lose", "losewatches", "refusewatches", "sleep"}
	default:
		all = []string{"cut", "cut", "expire", "expire", "partition", "clock", "restart", "lag", "land", "lose", "lose", "losewatches", "refusewatches", "sleep"}
	}
	d.each("net", 50*time.Millisecond, 4*time.Second, func(r *rand.Rand, s step) (step, time.Duration) {
		s.what = all[r.IntN(len(all))]
		s = d.drawFault(r, s)
		return s, s.time("for")
	})
}

func (d *drawer) drawFault(r *rand.Rand, s step) step {
	on, member := fmt.Sprint("p", r.IntN(d.processes)), r.IntN(d.members)
	switch r.IntN(8) {
	case 0, 1:
		on += "+1"
	case 2:
		on = "reaper"
	}
	switch s.what {
	case "cut", "expire", "losewatches":
		return s.with("on", on)
	case "partition":
		if oneIn(r, 2) {
			s = s.with("from", member+1) // else from all members
		}
		return s.with("on", on).with("for", span(r, 0, 2*d.ttl))
	case "restart", "leader":
		if d.kind == elections {
			s = s.with("clock", span(r, -time.Hour, time.Hour))
		}
		leader := s.what == "leader"
		s.what = "restart"
		return s.with("leader", leader).with("member", member).with("for", span(r, 0, d.ttl))
	case "lag":
		return s.with("member", member).with("by", span(r, 0, 2*time.Second))
	case "land":
		return s.with("on", on).with("member", member).with("by", span(r, 500*time.Millisecond, 3*time.Second)).with("for", span(r, 0, 4*time.Second))
	case "refusewatches":
		return s.with("on", on).with("for", span(r, 0, 5*time.Second))
	case "sleep":
		return s.with("by", span(r, 0, 2*d.ttl))
	case "clock":
		most := d.grace * 2 / 5
		if d.kind == elections {
			most = time.Hour
		}
		return s.with("member", member).with("by", span(r, -most, most))
	}
	if d.kind != strangers {
		s = s.with("late", true).with("after", oneIn(r, 3)).with("refuse", oneIn(r, 3))
	}
	return s.with("odds", 1+r.IntN(10)).with("told", d.tells).with("for", span(r, time.Second, 20*time.Second))
}

// drawDataFaults draws what happens to the servers' data, and the step of the leader's clock.
func (d *drawer) drawDataFaults() {
	r := d.random("data")
	s := step{at: span(r, d.lasts/4, d.lasts/2).Truncate(time.Millisecond), who: "data"}
	switch {
	case d.kind == forgetting:
		s.what = "forget"
		d.add(s)
	case d.kind == stepped:
		by := span(r, 2*d.grace, time.Hour)
		if oneIn(r, 2) {
			by = -by
		}
		s.what = "step"
		d.add(s.with("by", by))
	case d.contenders == 0 && (d.kind == faulty || d.kind == elections) && oneIn(r, 4):
		s.what = "spend"
		d.add(s.with("lock", d.ordinary()[0]).with("left", r.IntN(4)))
	}
}
