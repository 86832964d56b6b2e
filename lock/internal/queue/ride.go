package queue

import (
	linked "container/list"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// What follows is about who of this process has an entry (Passing on). It lets nobody in:
// whoever gets a seat joins and waits by its entry as if there were no others, and who takes
// one over from another goes through decide.

// rides are the parties of one lock.
type rides struct {
	mu      sync.Mutex
	parties []*party
}

// party are the contenders of this process for one lock that ask for the same, and so can
// have one entry after the other. It is there while somebody rides or has a seat; all of it
// is guarded by its rides.
type party struct {
	*rides
	q       *Queue
	like    Request
	riders  linked.List // of *rider: who came first is first
	seats   []*seat
	seatsAt int // most seats that are of use at once
}

// seat is what entitles one of a party to have an entry.
type seat struct {
	*party
	entry *Entry // that holds the lock, or is kept; nil: somebody is about to get one
	kept  bool   // nobody has the entry

	// The window in which the entry is passed on, whoever else waits.
	until   time.Duration // monotonic time of its end
	looking bool          // it is being looked whether others wait
	crowded bool          // they do

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

// sameAs reports whether another contender can have the entry of this one.
func (r *Request) sameAs(o *Request) bool {
	s, t := &r.Terms, &o.Terms
	return r.Kind == o.Kind && r.Role == o.Role && r.Permits == o.Permits && r.Capacity == o.Capacity &&
		r.KeepParent == o.KeepParent && r.Window == o.Window && r.Idle == o.Idle &&
		s.TTL == t.TTL && s.Grace == t.Grace && s.MaxHold == t.MaxHold && maps.Equal(s.Metadata, t.Metadata)
}

// partyOf returns the party of a contender; r.mu is held.
func (c *contender) party() *party {
	r := &c.door.rides
	for _, p := range r.parties {
		if p.like.sameAs(&c.Request) {
			return p
		}
	}
	p := &party{rides: r, q: c.Queue, like: c.Request, seatsAt: 1}
	p.like.Values = nil
	if c.Kind == znode.Semaphore {
		p.seatsAt = int(max(1, c.Capacity/c.Permits))
	}
	r.parties = append(r.parties, p)
	return p
}

// ride takes the lock by an entry of its own, or by that of one of the same party.
func (c *contender) ride(ctx context.Context) (*Entry, error) {
	if !c.rideable() {
		return c.acquire(ctx)
	}
	b, err := c.board(ctx)
	if err != nil || b.joined {
		return b.e, err
	}
	return c.occupy(ctx, b)
}

// board waits for a seat.
func (c *contender) board(ctx context.Context) (boarding, error) {
	d := c.door
	d.rides.mu.Lock()
	p := c.party()
	if p.riders.Len() == 0 {
		if b, ok := p.vacancy(); ok {
			d.rides.mu.Unlock()
			return b, nil
		}
	}
	r := &rider{make(chan boarding, 1)}
	place := p.riders.PushBack(r)
	inTheWay := p.inTheWay()
	d.rides.mu.Unlock()
	select {
	case b := <-r.turn:
		return b, nil
	case <-ctx.Done():
	}
	d.rides.mu.Lock()
	if len(r.turn) == 0 {
		p.riders.Remove(place)
		p.disband()
	}
	d.rides.mu.Unlock()
	select {
	case b := <-r.turn: // just now
		b.handOn()
	default:
	}
	c.lastBlocker = inTheWay
	return boarding{}, zkconn.ContextError(ctx)
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
		if p.pending() {
			return boarding{}, false
		}
	} else if len(p.seats) == p.seatsAt {
		return boarding{}, false
	}
	s := &seat{party: p}
	p.seats = append(p.seats, s)
	return boarding{seat: s}, true
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

// occupy makes a hold of what was found at a seat, or of an entry that is joined anew.
func (c *contender) occupy(ctx context.Context, b boarding) (e *Entry, err error) {
	if b.e != nil && b.e.Err() != nil {
		before := b.e
		switch b.e, err = c.goOn(ctx, b); {
		case err != nil:
			b.e = before
		case b.e == nil: // it is not to be had
			c.Discard(before)
		}
	}
	if err == nil {
		e, err = c.acquireBy(ctx, &b)
	}
	if err != nil {
		b.handOn()
		return nil, err
	}
	b.taken(e)
	return e, nil
}

// goOn makes an entry of ours of one that another of the party has unlocked. It returns
// none if that one is to leave.
func (c *contender) goOn(ctx context.Context, b boarding) (*Entry, error) {
	if b.look {
		sent := c.Clock.Mono()
		alone, err := c.alone(ctx, b.e)
		if !alone || err != nil {
			return nil, zkconn.ContextError(ctx) // nil, unless that is why
		}
		b.mu.Lock()
		b.until = max(b.until, sent+b.like.Window)
		b.mu.Unlock()
	}
	e, err := b.e.next(ctx)
	if errors.Is(err, lease.ErrNotQuiet) {
		err = nil
	}
	return e, err
}

// next returns the entry that goes on by the node of one that was unlocked.
func (e *Entry) next(ctx context.Context) (*Entry, error) {
	n := &Entry{
		Kind: e.Kind, queue: e.queue, Pass: e.Pass + 1, czxid: e.czxid,
		incarnation: e.incarnation, parentVersion: e.parentVersion,
		joinedAlone: e.joinedAlone, keepParent: e.keepParent, adopted: e.adopted, othersAtGrant: e.othersAtGrant,
	}
	if err := n.Succeed(ctx, n, &e.Entry); err != nil {
		return nil, err
	}
	d := e.queue.openDoor(e.Lock())
	defer e.queue.closeDoor(d)
	d.succeed(e, n)
	return n, nil
}

// alone reports whether nobody but the entry is at its lock.
func (q *Queue) alone(ctx context.Context, e *Entry) (bool, error) {
	stat, err := q.Conn.Exists(ctx, e.parent())
	return err == nil && stat.NumChildren == 1, err
}

// taken notes that somebody has got the lock by the seat.
func (s *seat) taken(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Pass == 0 { // it was joined for this
		s.until, s.crowded = s.q.Clock.Mono()+s.like.Window, false
	}
	if s.entry = e; e.Err() != nil { // already: nobody has heard of it
		s.vacate()
	}
	for r := s.riders.Front(); r != nil && s.entry == e && s.like.Role == znode.Shared && e.Join(); r = s.riders.Front() {
		s.riders.Remove(r).(*rider).turn <- boarding{seat: s, e: e, joined: true}
	}
}

// handOn gives what was found at a seat to the next one, because whoever has it does not
// want it any more. If nobody does, an entry that is there leaves.
func (b boarding) handOn() {
	if b.joined {
		if last, _ := b.e.Unlock(); last {
			b.q.Pass(b.e)
			b.q.Discard(b.e)
		}
		return
	}
	b.mu.Lock()
	given := b.turnOf(b)
	if !given {
		b.vacate()
	}
	b.mu.Unlock()
	switch {
	case given || b.e == nil:
	case b.e.Withdraw(), errors.Is(b.e.Err(), lease.ErrUnlocked):
		b.q.Discard(b.e)
	default:
		b.q.Forget(b.e)
	}
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
	if next := (&seat{party: s.party}); !(s.like.Role == znode.Shared && s.pending()) && s.turnOf(boarding{seat: next}) {
		s.seats = append(s.seats, next)
	}
	s.disband()
}

// disband forgets a party that is empty; p.mu is held.
func (p *party) disband() {
	if len(p.seats) > 0 || p.riders.Len() > 0 {
		return
	}
	for i := range p.parties {
		if p.parties[i] == p {
			p.parties = append(p.parties[:i], p.parties[i+1:]...)
			return
		}
	}
}

// Pass gives an entry that was just unlocked to the next one of this process, or keeps it
// for that one. If it reports false the entry is to leave.
func (q *Queue) Pass(e *Entry) bool {
	s := e.seat
	if s == nil {
		return false
	}
	now := q.Clock.Mono()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entry != e {
		return false
	}
	over := now >= s.until && !s.keep.watches()
	switch {
	case s.like.Role == znode.Shared: // the last of those who had it
	case s.crowded && (over || s.keep.watches()), !e.Passable(), e.Name().Draining():
	case s.riders.Len() > 0:
		e.passedOn.Store(true)
		s.turnOf(boarding{seat: s, e: e, p: position{admitted: true}, look: over})
		if !over {
			s.lookAhead(e, now)
		}
		return true
	case s.keepIdle(e, now):
		return true
	}
	s.vacate()
	return false
}

// lookAhead has it looked whether others wait before the window ends, so that nobody waits
// for the answer; s.mu is held.
func (s *seat) lookAhead(e *Entry, now time.Duration) {
	if s.looking || s.crowded || s.keep.watches() || s.until-now > s.like.Window/2 {
		return
	}
	s.looking = true
	s.q.background(func() {
		sent := s.q.Clock.Mono()
		alone, err := s.q.alone(s.q.Closing, e)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.looking = false
		switch {
		case err != nil: // it is looked again when the window is over
		case !alone:
			s.crowded = true
		default:
			s.until = max(s.until, sent+s.like.Window)
		}
	})
}

// Unseat keeps the entry from being passed on, because it has ended otherwise than by an
// unlock, or is another one than it was: who rides on it queues up anew.
func (e *Entry) Unseat() {
	s := e.seat
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entry == e {
		s.vacate()
	}
}

// tryRide takes the lock without waiting for anybody. One that is kept is had at once; of
// one that is had nobody takes the place of those who ride.
func (c *contender) tryRide(ctx context.Context) (*Entry, error) {
	if !c.rideable() {
		return c.try(ctx)
	}
	c.door.rides.mu.Lock()
	p := c.party()
	b, kept := p.takeKept()
	p.disband()
	c.door.rides.mu.Unlock()
	if kept {
		return c.occupy(ctx, b)
	}
	return c.try(ctx)
}
