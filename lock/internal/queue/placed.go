package queue

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/place"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// placed is the place of this process for the requests that ask for the same (package
// place), with the joins and looks that it takes. It is guarded by its lock state, and there
// while it is used.
type placed struct {
	place.Place[*Entry]
	queue   *Queue
	lock    *lockState
	like    Request
	blocker *Blocked // the contender in the way of the join
	waiting bool     // a join has to wait
	waitsBy string   // by that entry; "": it has none

	looking bool // a look for other contenders is due, or under way
	watched bool // a goroutine looks after what is kept

	keptSince time.Duration // monotonic time
}

// errUnwanted ends a join that no goroutine waits for any more.
var errUnwanted = errors.New("no goroutine waits for the lock any more")

// takePlace enters a waiter. It returns the entry if there is one for it at once. If inline
// may be, and the waiter needs a join that no other can be served by, it returns that
// join, to be made by the caller.
func (q *Queue) takePlace(lock *lockState, w *place.Waiter[*Entry], r *Request, inline bool) (*placed, *Entry, *place.Join) {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.wake(q, r)
	p := lock.placeFor(q, r)
	first := p.Empty()
	for {
		e, step := p.Enter(w, q.Clock.Mono(), (*Entry).Join)
		switch step {
		case place.Share:
			return p, e, nil
		case place.Take:
			switch next, _ := decide(position{admitted: true}, e.Fresh(q.Conn.Session())); {
			case next != enter: // it has to be written first
				p.Return(w)
				p.begin(e, place.Take)
			case p.grant(w, e, nil) != nil: // it has ended just now
				continue
			default:
				return p, e, nil
			}
		case place.Enter:
			if inline && first && !p.Shared && p.Room == 1 {
				j := &place.Join{Cancel: func() {}}
				p.Begin(j)
				return p, nil, j
			}
			p.begin(nil, place.Enter)
		case place.Wait:
			p.tellWaits(r)
			p.lookSoon()
		}
		return p, nil, nil
	}
}

// placeFor returns the place of a request; s.mu is held. The state stays open while a place
// is used.
func (s *lockState) placeFor(q *Queue, r *Request) *placed {
	if p := s.places.find(r.likeness()); p != nil {
		return p
	}
	p := &placed{queue: q, lock: s, like: *r}
	p.like.Values = context.Background()
	p.Window, p.Idle, p.Shared, p.Room = r.Window, r.Idle, r.Role == znode.Shared, 1
	if r.Kind == znode.Semaphore {
		p.Room = int(max(1, r.Capacity/r.Permits))
	}
	s.places.add(p)
	q.mu.Lock()
	s.users++
	q.mu.Unlock()
	return p
}

// vacate forgets the place if it is not used any more; lock.mu is held.
func (p *placed) vacate() {
	if p.Empty() && p.lock.places.remove(p) {
		p.queue.close(p.lock)
	}
}

// tellWaits tells that a request has to wait, if another entry is ahead for sure; lock.mu is
// held.
func (p *placed) tellWaits(r *Request) {
	if _, held := p.Holder(); held || p.waiting {
		p.queue.Waits(r.Values, r, p.waitsBy)
	}
}

// inTheWay is the contender that the place waits for; lock.mu is held.
func (p *placed) inTheWay() *Blocked {
	e, held := p.Holder()
	if p.blocker != nil || !held {
		return p.blocker
	}
	r := e.RecordNow()
	written := r.ExpiresAt - 2*r.TTL + e.Remaining().Milliseconds() // so that it expires when its lease ends
	return &Blocked{Path: e.Path, Entry: &znode.Entry{Name: e.Name(), Record: r, Stat: znode.Stat{Mtime: written}}}
}

// giveUp removes a waiter whose context has ended, and returns its error. If it was served
// just now, the hold is given back.
func (p *placed) giveUp(ctx context.Context, w *place.Waiter[*Entry]) error {
	p.lock.mu.Lock()
	inTheWay := p.inTheWay()
	queued := p.Cancel(w)
	p.vacate()
	p.lock.mu.Unlock()
	if !queued {
		if turn := <-w.Served; turn.Err == nil {
			p.queue.giveBack(turn.Entry)
		}
	}
	return p.queue.gaveUp(ctx, inTheWay)
}

// giveBack unlocks an entry that a goroutine has got and does not want any more.
func (q *Queue) giveBack(e *Entry) {
	if last, _ := e.Unlock(); last && !q.HandOff(e) {
		q.HandoffFailed(e)
		q.Remove(e)
	}
}

// grant gives an entry to a waiter: before is the one that it goes on from, if it does.
// lock.mu is held.
func (p *placed) grant(w *place.Waiter[*Entry], e, before *Entry) error {
	q, r := p.queue, w.For.(*Request)
	now := q.Clock.Local()
	c := contender{Request: *r}
	e.lock, e.place = p.lock, p
	if err := e.Grant(r.Values, now, c.recordAt(e, now.Mono)); err != nil {
		e.lock, e.place = nil, nil
		return err
	}
	if before != nil {
		p.Hold(e, &before, now.Mono)
	} else {
		p.Hold(e, nil, now.Mono)
	}
	return nil
}

// begin starts a join, from an entry if one is given; lock.mu is held.
func (p *placed) begin(from *Entry, how place.Step) {
	ctx, cancel := context.WithCancelCause(p.queue.Closing)
	j := &place.Join{Cancel: func() { cancel(errUnwanted) }}
	p.Begin(j)
	if !p.queue.background(func() {
		defer cancel(nil)
		p.join(ctx, j, from, how)
	}) {
		cancel(nil)
		go p.arrived(j, nil, zkconn.ErrClosed) // Close has waited already
	}
}

// join runs a join until its turn has come.
func (p *placed) join(ctx context.Context, j *place.Join, from *Entry, how place.Step) {
	q := p.queue
	c := q.newContender(p.like)
	defer q.close(c.lock)
	c.blocker = func(b *Blocked) {
		p.lock.mu.Lock()
		defer p.lock.mu.Unlock()
		p.blocker = b
	}
	c.waiting = p.waits
	c.placed = p
	e, at, err := c.from(ctx, from, how)
	if err == nil && c.Barging {
		e, err = c.barge(ctx, e)
	} else if err == nil {
		e, err = c.obtain(ctx, e, at)
	}
	p.arrived(j, e, err)
}

// waits tells all who wait that an entry waits for them.
func (p *placed) waits(entry string) {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	if p.waiting && p.waitsBy == entry {
		return
	}
	p.waiting, p.waitsBy = true, entry
	for _, w := range p.Waiters() {
		r := w.For.(*Request)
		p.queue.Waits(r.Values, r, entry)
	}
}

// from returns the entry that a join begins with, if it does with one.
func (c *contender) from(ctx context.Context, before *Entry, how place.Step) (e *Entry, p position, err error) {
	switch how {
	case place.Take:
		return before, position{admitted: true}, nil
	case place.Exchange:
		return c.exchange(ctx, before)
	case place.Pass:
		if e, err = before.next(ctx); err == nil {
			return e, position{admitted: true}, nil
		}
		c.HandoffFailed(before)
		c.Remove(before)
		if ctx.Err() != nil {
			return nil, position{}, err
		}
	}
	return nil, position{}, nil
}

// arrived is called when a join has ended: the turn of its entry has come, or it has failed.
func (p *placed) arrived(j *place.Join, e *Entry, err error) {
	p.lock.mu.Lock()
	p.End(j)
	p.blocker, p.waiting, p.waitsBy = nil, false, ""
	unwanted := false
	switch {
	case errors.Is(err, errUnwanted):
	case err != nil:
		for w := p.Next(); w != nil; w = p.Next() {
			w.Served <- place.Turn[*Entry]{Err: err}
		}
	default:
		unwanted = !p.serve(e)
	}
	p.goOn()
	p.lock.mu.Unlock()
	if unwanted {
		c := contender{Queue: p.queue, Request: p.like, parent: p.queue.Path(p.like.Lock)}
		c.withdraw(e)
	}
}

// serve gives an entry to the first waiter, and a shared one to all. It reports false if no
// goroutine has it. lock.mu is held.
func (p *placed) serve(e *Entry) bool {
	w := p.Next()
	if w == nil {
		return false
	}
	if p.grant(w, e, nil) != nil { // it was lost just now
		p.Return(w)
		return false
	}
	w.Served <- place.Turn[*Entry]{Entry: e}
	for p.Shared && p.Waiting() > 0 && e.Join() {
		p.Next().Served <- place.Turn[*Entry]{Entry: e}
	}
	return true
}

// goOn begins the joins that are of use, and looks for others in a while; lock.mu is held.
func (p *placed) goOn() {
	for p.NeedsJoin() {
		p.begin(nil, place.Enter)
	}
	p.lookSoon()
	p.rest()
	p.vacate()
}

// rest forgets the place of a hold that no other goroutine waits for: a client may have very
// many. lock.mu is held.
func (p *placed) rest() {
	s := p.lock
	e, held := p.Holder()
	if !held || !p.HeldAlone() || s.resting != nil || p.looking || p.watched || p.Shared || p.Idle > 0 ||
		p.like.Kind == znode.Semaphore || e.Pass > 0 || !s.places.remove(p) {
		return
	}
	s.resting, e.place = e, nil
	e.window, e.barging, e.keepsParent = int32(p.like.Window/time.Millisecond), p.like.Barging, p.like.KeepParent
}

// wake makes the place of a resting entry anew, for a request that can have the entry; s.mu
// is held.
func (s *lockState) wake(q *Queue, r *Request) {
	e := s.resting
	if e == nil || e.likeness() != r.likeness() {
		return
	}
	s.resting, e.place = nil, s.placeFor(q, r)
	e.place.Hold(e, nil, e.HeldSince())
	q.close(s) // the place keeps it open now
}

// HandOff gives an entry that was just unlocked to the next goroutine of this process, keeps
// it for one, or exchanges it for one that joins. If it reports false the entry is to leave.
func (q *Queue) HandOff(e *Entry) bool {
	s := e.lock
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := e.place
	if p == nil {
		q.stir(e)
		return false
	}
	defer p.goOn()
	switch p.Released(e, q.Clock.Mono(), e.passable() && q.Closing.Err() == nil) {
	case place.Pass:
		p.pass(e)
		return true
	case place.Exchange:
		if !e.Quiet() { // Unlock waits until what is on its way cannot be applied any more
			return false
		}
		p.begin(e, place.Exchange)
		return true
	case place.Keep:
		n, err := e.next(noWait)
		if err == nil {
			p.Store(n, e)
			p.lookAfter()
			return true
		}
		p.Drop(e)
	}
	return false
}

// pass gives an unlocked entry to the first waiter: at once if no write is on its way and the
// lease is fresh, else by a join that goes on from it. lock.mu is held.
func (p *placed) pass(e *Entry) {
	n, err := e.next(noWait)
	if err != nil {
		p.Drop(e)
		e.handedOff.Store(true)
		p.begin(e, place.Pass)
		return
	}
	if next, _ := decide(position{admitted: true}, n.Fresh(p.queue.Conn.Session())); next == enter {
		w := p.Next()
		if p.grant(w, n, e) == nil {
			w.Served <- place.Turn[*Entry]{Entry: n}
			return
		}
		p.Return(w)
		p.Drop(e)
		return
	}
	p.Drop(e)
	p.begin(n, place.Take)
}

// Unplace takes an entry from its place, because it has ended otherwise than by an unlock, or
// is another one than it was: the waiters get another entry.
func (e *Entry) Unplace() {
	s := e.lock
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := e.place; p == nil {
		e.queue.stir(e)
	} else if p.Drop(e) {
		p.goOn()
	}
}

// stir ends the rest of an entry that leaves; its lock state is locked.
func (q *Queue) stir(e *Entry) {
	if s := e.lock; s.resting == e {
		s.resting = nil
		q.close(s)
	}
}

// lookEvery is how soon it is looked for other contenders, at the least, while goroutines wait
// for an entry that another one has.
const lookEvery = 10 * time.Millisecond

// lookSoon looks for other contenders in a while, if that is of use; lock.mu is held. If
// others are there the first waiter joins, although the entry is held: its place in the queue
// is then that of a client without local waiters.
func (p *placed) lookSoon() {
	if p.looking || !p.LookDue() || p.queue.Closing.Err() != nil {
		return
	}
	p.looking = true
	// Before the window ends, and during a long hold ever more rarely.
	wait := max(p.Window, lookEvery) / 2
	if e, held := p.Holder(); held {
		wait = min(max(wait, (p.queue.Clock.Mono()-e.HeldSince())/4), lookAgain)
	}
	time.AfterFunc(wait, func() {
		if !p.queue.background(p.look) {
			p.lock.mu.Lock()
			p.looking = false
			p.lock.mu.Unlock()
		}
	})
}

// look looks for other contenders, by one read.
func (p *placed) look() {
	p.lock.mu.Lock()
	due, began := p.LookDue(), p.queue.Clock.Mono()
	p.lock.mu.Unlock()
	contenders := 0
	if due {
		children, _, err := p.queue.Conn.Children(p.queue.Closing, p.queue.Path(p.like.Lock))
		if contenders = len(znode.Contenders(children)); err != nil {
			contenders = math.MaxInt // unknown: the waiters join
		}
		p.readRoom()
	}
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	if p.looking = false; due && p.Looked(began, contenders) {
		p.begin(nil, place.Enter)
	}
	p.goOn()
}

// entries is how many entries of the place are at the lock.
func (p *placed) entries() int {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	return p.Entries()
}

// readRoom reads how many permits a semaphore has: a client whose entries hold as many as there
// were has none in the queue that learns of more.
func (p *placed) readRoom() {
	if p.like.Kind != znode.Semaphore {
		return
	}
	c := p.queue.newContender(p.like)
	defer c.close(c.lock)
	if capacity, _, err := c.readCapacity(c.Closing, false); err == nil {
		p.lock.mu.Lock()
		defer p.lock.mu.Unlock()
		p.Room = int(max(1, capacity/c.Permits))
	}
}
