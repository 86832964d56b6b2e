package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/place"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// placed is this client's place (package place) in the queue of a lock, for requests that
// are alike. lock.mu guards it. It exists while it is used.
type placed struct {
	place.Place[*Entry]
	queue   *Queue
	lock    *lockState
	like    Request
	blocker *Blocked // the contender in the way of the join; nil: none
	waiting bool     // a join has to wait
	waitsBy string   // path of the entry that this join waits with; "": it has none
	ahead   int      // entries ahead of that entry when the wait began
	timed   bool     // the timer of awaitLongHold is set
}

// errUnwanted ends a join that no goroutine waits for any more.
var errUnwanted = errors.New("no goroutine waits for the lock any more")

// takePlace adds a waiter to the place of its request. If the waiter gets an entry at once,
// takePlace returns the entry.
func (s *lockState) takePlace(q *Queue, w *place.Waiter[*Entry], r *Request) (*placed, *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.placeFor(q, r)
	e, step := p.Enter(w, q.Clock.Mono(), (*Entry).AddHandle)
	switch step {
	case place.Share:
		return p, e
	case place.StartJoin:
		p.begin(nil, false, 0)
	case place.Wait:
		p.tellWaits(r)
		p.awaitLongHold()
	}
	return p, nil
}

// placeFor returns the place of a request, and makes it if there is none; s.mu is held. A place
// keeps the state open.
func (s *lockState) placeFor(q *Queue, r *Request) *placed {
	digest := r.digest()
	i, _ := slices.BinarySearchFunc(s.places, digest, func(p *placed, digest uint64) int { return cmp.Compare(p.like.digest(), digest) })
	for _, p := range s.places[i:] {
		if p.like.alike(r) {
			return p
		} else if p.like.digest() != digest {
			break
		}
	}
	p := &placed{queue: q, lock: s, like: *r}
	p.like.Values = context.Background()
	p.Window, p.Shared, p.Room = r.Window, r.Role == znode.Shared, kindOf(r.Kind).fit(r)
	s.places = slices.Insert(s.places, i, p)
	q.mu.Lock()
	s.users++
	q.mu.Unlock()
	return p
}

// vacate forgets the place if it is not used any more; lock.mu is held.
func (p *placed) vacate() {
	if !p.Empty() {
		return
	}
	if s, i := p.lock, slices.Index(p.lock.places, p); i >= 0 {
		s.places = slices.Delete(s.places, i, i+1)
		p.queue.close(s)
	}
}

// tellWaits reports that a request has to wait, if another entry is surely ahead; lock.mu is
// held.
func (p *placed) tellWaits(r *Request) {
	ahead := p.ahead
	if !p.waiting {
		if _, ahead = p.Holder(); ahead == 0 {
			return
		}
	}
	p.queue.Waits(r.Values, r, p.waitsBy, p.aheadOf(p.Waiting()-1, ahead))
}

// aheadOf returns the number of contenders ahead of the i-th waiter; first is the number ahead of
// the first waiter. 0 means unknown. In a place of readers the number is the same for all waiters,
// because they get one entry together.
func (p *placed) aheadOf(i, first int) int {
	if first == 0 || p.Shared {
		return first
	}
	return first + i
}

// inTheWay returns the contender that the place's waiters wait for: the contender in the way of a
// join, or an entry that the place itself holds; nil if there is neither. lock.mu is held.
func (p *placed) inTheWay() *Blocked {
	e, held := p.Holder()
	if p.blocker != nil || held == 0 {
		return p.blocker
	}
	r := e.RecordNow()
	written := r.ExpiresAt - 2*r.TTL + e.Remaining().Milliseconds() // so that Expires is right
	return &Blocked{Path: e.Path, Entry: &znode.Entry{Name: e.Name(), Record: r, Stat: znode.Stat{Mtime: written}}}
}

// giveUp removes a waiter whose context has ended, and returns its error. If the waiter was just
// served, giveUp releases the hold.
func (p *placed) giveUp(ctx context.Context, w *place.Waiter[*Entry]) error {
	p.lock.mu.Lock()
	inTheWay := p.inTheWay()
	queued := p.Cancel(w)
	p.vacate()
	p.lock.mu.Unlock()
	if !queued {
		if turn := <-w.Served; turn.Err == nil {
			p.unlockAbandoned(turn.Entry)
		}
	}
	return p.queue.gaveUp(ctx, inTheWay)
}

// unlockAbandoned unlocks an entry that was granted to a goroutine that has given up, and hands it off
// or deletes it.
func (p *placed) unlockAbandoned(e *Entry) {
	if last, _ := e.Unlock(); last && !p.queue.HandOff(e) {
		p.queue.NotHandedOff(e)
		e.Remove()
	}
}

// grant turns an entry into the hold of a waiter's request. until is the end of the entry's window, 0
// for a new entry. It fails if the entry has ended. lock.mu is held.
func (p *placed) grant(w *place.Waiter[*Entry], e *Entry, until time.Duration) error {
	q, r := p.queue, w.For.(*Request)
	now := q.Clock.Local()
	e.place = p
	if err := e.Grant(r.Values, now, r.recordAt(e, now.Mono)); err != nil {
		e.place = nil
		return err
	}
	p.Hold(e, until, now.Mono)
	return nil
}

// begin starts a join; lock.mu is held. It begins with from, unless nil: an unlocked entry. If exchanges
// is set, from leaves in the transaction of the join. Otherwise the join only waits for the write of from
// in flight, and then hands from off. until is the end of from's window, 0 for a new entry.
func (p *placed) begin(from *Entry, exchanges bool, until time.Duration) {
	ctx, cancel := context.WithCancelCause(p.queue.Closing)
	j := &place.Join{Cancel: func() { cancel(errUnwanted) }, Until: until}
	p.Begin(j)
	p.queue.Tasks.Go(func() { // succeeds: the waiters' calls are tasks, too
		defer cancel(nil)
		p.join(ctx, j, from, exchanges)
	})
}

// join gets an entry whose turn has come, or an error, and calls arrived with it.
func (p *placed) join(ctx context.Context, j *place.Join, from *Entry, exchanges bool) {
	q := p.queue
	c := newContender(q, p.like)
	defer q.close(c.lock)
	c.blocker = func(b *Blocked) {
		p.lock.mu.Lock()
		defer p.lock.mu.Unlock()
		p.blocker = b
	}
	c.waiting = p.waits
	c.placed = p
	e, at, err := c.startFrom(ctx, from, exchanges, j.Until)
	if err == nil && e == nil && c.Barging {
		e, err = c.barge(ctx)
	} else if err == nil {
		e, err = c.obtain(ctx, e, at)
	}
	p.arrived(ctx, j, e, err)
}

// waits reports to Options.Waits that each waiter of the place waits, with the path of the join's
// entry and the number of contenders ahead. Further calls with the same entry do nothing.
func (p *placed) waits(entry string, ahead int) {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	if p.waiting && p.waitsBy == entry {
		return
	}
	p.waiting, p.waitsBy, p.ahead = true, entry, ahead
	for i, w := range p.Waiters() {
		r := w.For.(*Request)
		p.queue.Waits(r.Values, r, entry, p.aheadOf(i, ahead))
	}
}

// startFrom returns the entry that a join begins with, and its position; nil if it begins without one. An
// entry goes on when its last write is answered. If its window ends before, it leaves: a server that is
// slow to answer must not keep others waiting.
func (c *contender) startFrom(ctx context.Context, before *Entry, exchanges bool, until time.Duration) (e *Entry, p position, err error) {
	if before == nil {
		return nil, position{}, nil
	}
	c.checked = before.generation()
	if exchanges {
		return c.exchange(ctx, before)
	}
	inWindow, cancel := context.WithTimeout(ctx, until-c.Clock.Mono())
	defer cancel()
	if e, err = before.successor(inWindow); err == nil {
		return e, position{admitted: true}, nil
	}
	before.handedOff.Store(false)
	c.NotHandedOff(before)
	before.Remove()
	if ctx.Err() == nil {
		err = nil
	}
	return nil, position{}, err
}

// arrived handles the end of a join: the turn of its entry has come, or it has failed with err. All
// waiters of the place get the error, unless ctx, the context of the join, ended with errUnwanted:
// then they have another join.
func (p *placed) arrived(ctx context.Context, j *place.Join, e *Entry, err error) {
	p.lock.mu.Lock()
	p.End(j)
	unwanted := false
	p.blocker, p.waiting, p.waitsBy, p.ahead = nil, false, "", 0
	switch {
	case err != nil && context.Cause(ctx) == errUnwanted:
	case err != nil:
		for w := p.Next(); w != nil; w = p.Next() {
			w.Served <- place.Turn[*Entry]{Err: err}
		}
	default:
		unwanted = !p.serve(e, j.Until)
	}
	p.goOn()
	p.lock.mu.Unlock()
	if unwanted {
		e.withdraw()
	}
}

// serve gives an entry to the first waiter, and a shared entry to all waiters. It returns false if
// no goroutine got it. lock.mu is held.
func (p *placed) serve(e *Entry, until time.Duration) bool {
	w := p.First()
	if w == nil || p.grant(w, e, until) != nil { // no goroutine waits, or the entry was lost just now
		return false
	}
	p.Next().Served <- place.Turn[*Entry]{Entry: e}
	for p.Shared && p.Waiting() > 0 && e.AddHandle() {
		p.Next().Served <- place.Turn[*Entry]{Entry: e}
	}
	return true
}

// goOn brings the place up to date after a change: it starts the joins that are needed, and drops a
// place that is not needed. lock.mu is held.
func (p *placed) goOn() {
	for p.NeedsJoin() {
		p.begin(nil, false, 0)
	}
	p.awaitLongHold()
	p.vacate()
	p.lock.check()
}

// awaitLongHold makes the first waiter join when the hold that it waits for has become long; lock.mu
// is held. There is one timer for a place, and not one for each hold.
func (p *placed) awaitLongHold() {
	wait, needed := p.JoinIn(p.queue.Clock.Mono())
	if !needed || p.timed {
		return
	}
	p.timed = true
	time.AfterFunc(max(wait, time.Millisecond), func() {
		p.lock.mu.Lock()
		defer p.lock.mu.Unlock()
		p.timed = false
		if wait, needed := p.JoinIn(p.queue.Clock.Mono()); needed && wait <= 0 && p.queue.Closing.Err() == nil {
			p.begin(nil, false, 0)
		}
		p.goOn()
	})
}
