package place

import (
	"slices"
	"time"
)

// LongHold is the age of a hold behind which the first waiter joins while the entry is still held.
const LongHold = time.Second

// hold is an entry that a goroutine of the place holds.
type hold[E any] struct {
	entry E
	since time.Duration // monotonic time of the grant to that goroutine
	until time.Duration // monotonic time at which the entry's window ends
}

// Hold records that a waiter has held e since the monotonic time since. until is the end of the
// entry's window; 0 for a new entry, whose window begins now.
func (p *Place[E]) Hold(e E, until, since time.Duration) {
	if until == 0 {
		until = since + p.Window
	}
	p.holds = append(p.holds, &hold[E]{e, since, until})
}

// Holder returns an entry that a goroutine of the place holds, and the number of such entries.
func (p *Place[E]) Holder() (e E, held int) {
	if held = len(p.holds); held > 0 {
		e = p.holds[0].entry
	}
	return e, held
}

// Held returns the entries that goroutines of the place hold.
func (p *Place[E]) Held() (all []E) {
	for _, h := range p.holds {
		all = append(all, h.entry)
	}
	return all
}

// Release drops an unlocked entry, and returns the next step for it: Pass, Exchange or Leave. passable:
// another goroutine can continue the entry, and Unlock need not wait until the entry has left. until is
// the end of the entry's window.
func (p *Place[E]) Release(e E, now time.Duration, passable bool) (next Step, until time.Duration) {
	h := p.drop(e)
	if h == nil || !passable || p.Shared || p.waiters.Len() == 0 {
		return Leave, 0
	}
	switch {
	case now < h.until:
		return Pass, h.until
	case len(p.joins) == 0:
		return Exchange, 0
	}
	return Leave, 0
}

// Drop removes an entry that has ended. It returns false if the entry did not belong to the place.
func (p *Place[E]) Drop(e E) bool { return p.drop(e) != nil }

func (p *Place[E]) drop(e E) *hold[E] {
	i := slices.IndexFunc(p.holds, func(h *hold[E]) bool { return h.entry == e })
	if i < 0 {
		return nil
	}
	h := p.holds[i]
	p.holds = slices.Delete(p.holds, i, i+1)
	return h
}

// JoinIn returns the time until the caller must begin a join although entries are held: until the
// last grant is LongHold ago. It returns false if goroutines do not wait for a held entry, or a join
// is in flight.
func (p *Place[E]) JoinIn(now time.Duration) (time.Duration, bool) {
	if len(p.holds) == 0 || p.waiters.Len() == 0 || len(p.joins) > 0 {
		return 0, false
	}
	return p.holds[len(p.holds)-1].since + LongHold - now, true
}
