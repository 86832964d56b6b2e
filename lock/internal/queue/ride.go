package queue

import (
	"context"
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

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
	c.heed(p)
	inTheWay := p.inTheWay()
	d.rides.mu.Unlock()
	c.riding.Add(1)
	defer c.riding.Add(-1)
	c.Waits(&c.Request)
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

// occupy makes a hold of what was found at a seat, or of an entry that is joined anew.
func (c *contender) occupy(ctx context.Context, b boarding) (e *Entry, err error) {
	if b.e != nil && b.e.Err() != nil {
		before := b.e
		switch b.e, err = c.goOn(ctx, b); {
		case err != nil:
			b.e = before
		case b.e == nil: // it is not to be had
			c.notPassed(before)
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
		alone, err := b.awaitLook(ctx, b.e)
		if !alone || err != nil {
			return nil, err
		}
	}
	e, err := b.e.next(ctx, b.seat)
	if errors.Is(err, lease.ErrNotQuiet) {
		err = nil
	}
	return e, err
}

// awaitLook reports whether nobody else waits, by a look that is under way or by another. It
// fails as ctx does.
func (s *seat) awaitLook(ctx context.Context, e *Entry) (alone bool, err error) {
	s.mu.Lock()
	looking := s.looking
	if looking == nil {
		looking = s.look(e)
	}
	s.mu.Unlock()
	select {
	case <-looking:
	case <-ctx.Done():
		return false, zkconn.ContextError(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alone, nil
}

// next returns the entry that goes on, at that seat, by the node of one that was unlocked.
func (e *Entry) next(ctx context.Context, s *seat) (*Entry, error) {
	n := &Entry{
		Kind: e.Kind, queue: e.queue, czxid: e.czxid,
		incarnation: e.incarnation, parentVersion: e.parentVersion, at: e.at, seat: s, window: e.window,
		joinedAlone: e.joinedAlone, keepParent: e.keepParent, adopted: e.adopted, othersAtGrant: e.othersAtGrant,
	}
	if err := n.Succeed(ctx, n, &e.Entry); err != nil {
		return nil, err
	}
	s.door.succeed(e, n)
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
		s.until, s.crowded = e.HeldSince()+s.like.Window, false
		s.keep.end() // what was kept before was another one, and its watch may have fired
		s.keep = nil
	}
	if s.entry = e; e.Err() != nil { // already: nobody has heard of it
		s.vacate()
	}
	for r := s.riders.Front(); r != nil && s.entry == e && s.like.Role == znode.Shared && e.Join(); r = s.riders.Front() {
		s.riders.Remove(r).(*rider).turn <- boarding{seat: s, e: e, joined: true}
	}
	if s.like.Role == znode.Shared { // of a hold that has come in doubt since nobody has a part
		s.another()
	}
	s.forget(e)
}

// handOn gives what was found at a seat to the next one, because whoever has it does not
// want it any more. If nobody does, an entry that is there leaves.
func (b boarding) handOn() {
	if b.joined {
		if last, _ := b.e.Unlock(); last {
			b.q.Pass(b.e)
			b.q.notPassed(b.e)
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
	case b.e.giveUp():
		b.q.Discard(b.e)
	case errors.Is(b.e.Err(), lease.ErrUnlocked):
		b.q.notPassed(b.e)
	default:
		b.q.Forget(b.e)
	}
}

// notPassed has an entry leave that was to be passed on, and that nobody has got.
func (q *Queue) notPassed(e *Entry) {
	e.passedOn.Store(false)
	q.NotPassed(e)
	q.Discard(e)
}

// Pass gives an entry that was just unlocked to the next one of this process, or keeps it
// for that one. If it reports false the entry is to leave.
func (q *Queue) Pass(e *Entry) bool {
	if e.at == nil {
		return false
	}
	now := q.Clock.Mono()
	next, passed := q.pass(e, now)
	if next && now-e.HeldSince() >= yieldAfter {
		runtime.Gosched() // the next one runs at once, and not when we come to wait for something
	}
	return passed
}

// yieldAfter is how long a hold has lasted after which its next one runs before whoever had
// it does. Shorter ones follow each other faster where nobody makes room.
const yieldAfter = time.Millisecond

// pass is Pass, and reports whether there is a next one.
func (q *Queue) pass(e *Entry, now time.Duration) (next, passed bool) {
	r := &e.at.rides
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaveLone(e)
	s := e.seat
	if s == nil || s.entry != e {
		return false, false
	}
	over := now >= s.until && !s.keep.watches()
	switch {
	case s.like.Role == znode.Shared: // the last of those who had it
	case s.crowded && (over || s.keep.watches()), !e.Passable(), e.Name().Draining(), e.Pass == math.MaxInt32:
	case s.riders.Len() > 0:
		e.passedOn.Store(true)
		if !over { // before the next one is woken, who would else run after it
			s.lookAhead(e, now)
		}
		return s.turnOf(boarding{seat: s, e: e, p: position{admitted: true}, look: over}), true
	case s.keepIdle(e, now):
		return false, true
	}
	s.vacate()
	return false, false
}

// lookAhead has it looked whether others wait before the window ends, so that nobody waits
// for the answer; s.mu is held.
func (s *seat) lookAhead(e *Entry, now time.Duration) {
	if s.looking == nil && !s.crowded && !s.keep.watches() && s.until-now <= max(s.like.Window/2, 2*s.took) {
		s.look(e)
	}
}

// look has it looked whether others wait. If nobody does another window begins, from when it
// was asked; s.mu is held.
func (s *seat) look(e *Entry) (done chan struct{}) {
	done = make(chan struct{})
	s.looking, s.alone = done, false
	sent := s.q.Clock.Mono()
	if !s.q.Tasks.Enter() { // the client is closed
		s.looking = nil
		close(done)
		return done
	}
	go func() {
		defer s.q.Tasks.Leave()
		alone, err := s.q.alone(s.q.Closing, e)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch s.alone = alone; {
		case err != nil: // it is not known: whoever waits for that queues anew
		case !alone:
			s.crowded = true
		default:
			s.until = max(s.until, sent+s.like.Window)
		}
		s.looking, s.took = nil, s.q.Clock.Mono()-sent
		close(done)
	}()
	return done
}

// Unseat keeps the entry from being passed on, because it has ended otherwise than by an
// unlock, or is another one than it was: who rides on it queues up anew.
func (e *Entry) Unseat() {
	if e.at == nil {
		return
	}
	r := &e.at.rides
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaveLone(e)
	if s := e.seat; s != nil && s.entry == e {
		s.vacate()
	}
}
