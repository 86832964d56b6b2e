package queue

import (
	"cmp"
	linked "container/list"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// What follows is about who of this process has an entry (Passing on). It lets nobody in:
// whoever gets a seat joins and waits by its entry as if there were no others, and who takes
// one over from another goes through decide.

// rides are the parties of one lock.
type rides struct {
	mu       sync.Mutex
	first    *party // nil: there is none
	capacity int32  // permits that there are, as far as is known; 0: it is not
	lone     *Entry // that nobody rides on, and whose party is not remembered meanwhile; nil: none. The door stays open
}

// party are the contenders of this process for one lock that ask for the same, and so can
// have one entry after the other. It is there while somebody rides or has a seat, and for as
// long its door is open, so that all who come find it; all of it is guarded by its rides.
type party struct {
	*rides
	next    *party // of the same lock
	q       *Queue
	door    *door
	like    Request
	riders  linked.List // of *rider: who came first is first
	seats   []*seat
	seatsAt int  // most seats that are of use at once
	heeding bool // one looks for all whether there are more permits

	// The first seat, which most parties have alone, and room for it in seats.
	firstSeat seat
	firstRoom [1]*seat
}

// seat is what entitles one of a party to have an entry.
type seat struct {
	*party
	entry *Entry // that holds the lock, or is kept; nil: somebody is about to get one
	kept  bool   // nobody has the entry

	// The window in which the entry is passed on, whoever else waits.
	until   time.Duration // monotonic time of its end
	looking chan struct{} // it is being looked whether others wait, until this is closed; nil: it is not
	took    time.Duration // that the last look did
	alone   bool          // by the last look, nobody does
	crowded bool          // others wait

	keep *keeping // of a kept entry, from when it first was on; nil: never
}

// rider is one that waits for a seat.
type rider struct{ turn chan boarding }

// boarding is what whoever gets a seat finds there.
type boarding struct {
	*seat
	e    *Entry // nil: none. One that has ended was unlocked, and is to be gone on with; any other is ours
	p    position
	look bool // the window is over: go on only if nobody else waits

	joined bool // the entry is held, by one more now
}

// rideable reports whether the contender can have an entry after another, or beside it. Who
// shares one with others cannot have an end of its own for it.
func (r *Request) rideable() bool {
	return r.Window > 0 && !r.Terms.Fixed && r.Priority == 0 && (r.Role != znode.Shared || r.Terms.MaxHold == 0)
}

// MayKeep is for how long the contender's entry is kept, where it asks for so long: who shares
// one, or has it for a fixed time, keeps none.
func (r *Request) MayKeep(idle time.Duration) time.Duration {
	if !r.rideable() || r.Role == znode.Shared {
		return 0
	}
	return idle
}

// sameAs reports whether another contender can have the entry of this one.
func (r *Request) sameAs(o *Request) bool {
	s, t := &r.Terms, &o.Terms
	return r.Kind == o.Kind && r.Role == o.Role && r.Permits == o.Permits && r.Capacity == o.Capacity &&
		r.KeepParent == o.KeepParent && r.Window == o.Window && r.Idle == o.Idle &&
		s.TTL == t.TTL && s.Grace == t.Grace && s.MaxHold == t.MaxHold && maps.Equal(s.Metadata, t.Metadata)
}

// party returns the party of a contender; rides.mu is held.
func (c *contender) party() *party {
	r := &c.door.rides
	if e := r.lone; e != nil && e.asked().sameAs(&c.Request) {
		return c.remember(e)
	}
	if p := r.partyOf(&c.Request); p != nil {
		return p
	}
	c.openFurther(c.door)
	return c.newParty()
}

// newParty returns one of those who ask for the same as the contender; rides.mu is held.
func (c *contender) newParty() *party {
	r := &c.door.rides
	p := &party{rides: r, next: r.first, q: c.Queue, door: c.door, like: c.Request, seatsAt: 1}
	p.like.Values, p.seats = nil, p.firstRoom[:0]
	p.fit(cmp.Or(r.capacity, c.Capacity))
	r.first = p
	return p
}

// partyOf returns the party of those who ask for that, nil if there is none; r.mu is held.
func (r *rides) partyOf(like *Request) *party {
	for p := r.first; p != nil; p = p.next {
		if p.like.sameAs(like) {
			return p
		}
	}
	return nil
}

// fit has as many seats be of use as there are permits for. Who rides gets those that are new.
func (r *rides) fit(capacity int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.capacity = capacity
	for p := r.first; p != nil; p = p.next {
		p.fit(capacity)
		for p.like.Kind == znode.Semaphore && p.another() {
		}
	}
}

// fit sets how many seats are of use at once; p.mu is held.
func (p *party) fit(capacity int32) {
	if p.like.Kind == znode.Semaphore {
		p.seatsAt = int(max(1, capacity/p.like.Permits))
	}
}

// heeds reports whether it is to be looked for more permits still.
func (p *party) heeds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heeding = p.riders.Len() > 0
	return p.heeding
}

// forget drops the party of an entry that is passed on to nobody so far: a client may have
// very many. Whoever comes to ride has it remembered. It is for what one has alone; p.mu is
// held.
func (s *seat) forget(e *Entry) {
	if s.lone != nil || s.entry != e || e.Pass > 0 || s.looking != nil || s.like.Idle > 0 ||
		s.like.Kind == znode.Semaphore || s.like.Role == znode.Shared || s.riders.Len() > 0 || len(s.seats) > 1 {
		return
	}
	e.seat, s.lone = nil, e
	s.remove()
}

// remember makes the party anew that was forgotten; its rides are locked.
func (c *contender) remember(e *Entry) *party {
	p := c.newParty()
	s := p.newSeat()
	s.entry, s.until = e, e.HeldSince()+e.window
	e.seat, p.lone = s, nil
	return p
}

// leaveLone drops an entry that nobody rides on; r.mu is held.
func (r *rides) leaveLone(e *Entry) {
	if r.lone == e {
		r.lone = nil
		e.queue.closeDoor(e.at)
	}
}

// vacancy is a seat that can be had at once; p.mu is held. Those who read have one entry
// together, but for those who come when its window is over: they have another one, so that
// whoever waits to write has its turn.
func (p *party) vacancy() (b boarding, ok bool) {
	if b, ok = p.takeKept(); ok {
		return b, true
	}
	if p.like.Role == znode.Shared {
		now := p.q.Clock.Mono()
		for _, s := range p.seats {
			if s.entry != nil && now < s.until && s.entry.Join() {
				return boarding{seat: s, e: s.entry, joined: true}, true
			}
		}
	}
	if !p.room() {
		return boarding{}, false
	}
	return boarding{seat: p.newSeat()}, true
}

// newSeat is one more; p.mu is held.
func (p *party) newSeat() *seat {
	s := &p.firstSeat
	if s.party != nil {
		s = new(seat)
	}
	s.party = p
	p.seats = append(p.seats, s)
	return s
}

// room reports whether one more seat is of use: those who read ride on with who is about to
// get an entry; p.mu is held.
func (p *party) room() bool {
	if p.like.Role == znode.Shared {
		return !p.pending()
	}
	return len(p.seats) < p.seatsAt
}

// pending reports whether somebody is about to get an entry; p.mu is held.
func (p *party) pending() bool {
	return slices.ContainsFunc(p.seats, func(s *seat) bool { return s.entry == nil })
}

// inTheWay is who has the lock that a rider waits for, if that is one of its party; p.mu is
// held.
func (p *party) inTheWay() *Blocked {
	for _, s := range p.seats {
		if s.entry != nil {
			return &Blocked{Path: s.entry.Path}
		}
	}
	return nil
}

// turnOf gives what is at a seat to the first rider, if there is one; p.mu is held.
func (p *party) turnOf(b boarding) bool {
	first := p.riders.Front()
	if first == nil {
		return false
	}
	b.seat.entry = nil
	p.riders.Remove(first).(*rider).turn <- b
	return true
}

// vacate gives up a seat: the next rider may have one, with no entry; p.mu is held.
func (s *seat) vacate() {
	for i := range s.seats {
		if s.seats[i] == s {
			s.seats[i] = s.seats[len(s.seats)-1]
			s.seats = s.seats[:len(s.seats)-1]
			break
		}
	}
	s.entry, s.kept = nil, false
	s.keep.end()
	s.another()
	s.disband()
}

// another gives the first rider a seat with no entry, and reports whether it has: there may
// be none, or no room; p.mu is held.
func (p *party) another() bool {
	next := &seat{party: p}
	if !p.room() || !p.turnOf(boarding{seat: next}) {
		return false
	}
	p.seats = append(p.seats, next)
	return true
}

// disband forgets a party that is empty; p.mu is held.
func (p *party) disband() {
	if len(p.seats) == 0 && p.riders.Len() == 0 && p.remove() {
		p.q.closeDoor(p.door)
	}
}

// remove takes it from the parties, and reports whether it was there; p.mu is held.
func (p *party) remove() bool {
	for at := &p.first; *at != nil; at = &(*at).next {
		if *at == p {
			*at = p.next
			return true
		}
	}
	return false
}
