package queue

import (
	"math"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/place"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Other contenders matter to a place while a goroutine waits for an entry that another goroutine
// holds, and while an unused entry is kept (a cached lease). A watch on the parent's children fires
// when another contender joins, of any library. Then the first local waiter joins while the entry
// is still held: behind that contender, even if the local waiter has waited for longer, but ahead
// of all contenders that join later. The client also releases a cached lease: at once, or, if a
// goroutine uses the lease again, at the unlock. Safety does not depend on the watch.

// listAfter is the shortest time from the start of followOthers to its first list, unless unused
// entries are cached.
const listAfter = 5 * time.Millisecond

// listMost is the longest pause between two lists while the children change and the number of
// contenders does not. Nested locks cause such changes: they are created and deleted below the same
// node. A cached lease may be released up to listMost late.
const listMost = 100 * time.Millisecond

// watchOthers starts followOthers if other contenders matter and it does not run; lock.mu is held.
// While the client closes, it does so only for a cached lease, which followOthers then releases.
func (p *placed) watchOthers() {
	_, cached := p.Cached()
	if !p.watching && (cached || p.queue.Closing.Err() == nil) && p.othersMatter() {
		p.watching = p.queue.Tasks.Go(p.followOthers)
	}
}

// othersMatter reports whether other contenders matter to the place; lock.mu is held. The watch of
// a cached lease stays while the lease is in use.
func (p *placed) othersMatter() bool {
	_, cached := p.Cached()
	return cached || p.CountDue() || p.watching && p.Idle > 0 && p.Entries() > 0
}

// followOthers lists the contenders, and again after each change, until it finds other contenders
// or they do not matter any more.
func (p *placed) followOthers() {
	q, path := p.queue, p.queue.Path(p.like.Lock)
	// The first list for waiters is made before their window ends. It sets no watch: a watch would be
	// of no use if there are other contenders.
	wait, watch := max(p.Window/2, listAfter), false
	if p.Idle > 0 {
		wait, watch = 0, true
	}
	var changed, resized <-chan zk.Event
	var last, rest time.Duration // time of the last list, and the pause after it
	var before int               // number of contenders in the last list
	for p.awaitListDue(wait, changed, resized) {
		_ = pause(q.Closing, max(0, last+rest-q.Clock.Mono()))
		resized = p.readRoom(watch)
		began, own := q.Clock.Mono(), p.entries()
		var children []string
		var stat *zk.Stat
		var err error
		if watch {
			children, stat, changed, err = q.Conn.WatchChildren(q.Closing, path)
		} else {
			children, stat, err = q.Conn.Children(q.Closing, path)
		}
		contenders := math.MaxInt // after an error there may be other contenders
		if err == nil {
			contenders = countContenders(children, stat)
		}
		if contenders > max(own, p.entries()) { // own entries may have joined or left since the list
			p.foundOthers()
			return
		}
		if rest = min(max(2*rest, listAfter), listMost); contenders != before || began-last > time.Second {
			rest = 0
		}
		last, before = began, contenders
		p.lock.mu.Lock()
		p.NoteAlone(began, watch)
		p.goOn() // there may be more permits
		p.lock.mu.Unlock()
		if wait = readAgainAfter; !watch {
			wait, watch = 0, true
		}
	}
}

// awaitListDue waits until the contenders must be listed: for the time wait, or until a watch
// fires. It checks at growing intervals of up to a second whether other contenders still matter. If
// not, it records that followOthers ends, and returns false. It releases a cached lease after the
// time Idle without use, and when the client closes.
func (p *placed) awaitListDue(wait time.Duration, changed, resized <-chan zk.Event) bool {
	q := p.queue
	list := time.NewTimer(wait)
	defer list.Stop()
	for due, again := false, listAfter; ; again = min(2*again, time.Second) {
		p.lock.mu.Lock()
		left := again
		if p.Idle > 0 {
			left = max(p.Idle, listAfter)
		}
		e, unused := p.Cached()
		if unused {
			left = p.cachedSince + p.Idle - q.Clock.Mono()
			if unused = left <= 0 || q.Closing.Err() != nil; unused {
				p.Drop(e)
			}
		}
		matters := p.othersMatter() && q.Closing.Err() == nil
		if due || !matters {
			p.NoteUnwatched(q.Clock.Mono())
		}
		if !matters {
			p.watching = false
			p.goOn()
		}
		p.lock.mu.Unlock()
		if unused {
			e.endUnused()
		}
		if due || !matters {
			return matters
		}
		idle := time.NewTimer(left)
		select {
		case <-changed:
			due = true
		case <-resized:
			due = true
		case <-list.C:
			due = true
		case <-idle.C:
		case <-q.Closing.Done():
		}
		idle.Stop()
	}
}

// foundOthers ends the watch after a list with other contenders: the first local waiter joins, and
// a cached lease is released.
func (p *placed) foundOthers() {
	p.lock.mu.Lock()
	e, unused := p.Cached()
	if unused {
		p.Drop(e)
	}
	p.watching = false
	if p.NoteContended() {
		p.begin(nil, place.StartJoin, place.Use{})
	}
	p.goOn()
	p.lock.mu.Unlock()
	if unused {
		e.endUnused()
	}
}

// entries returns the number of the place's entries at the lock.
func (p *placed) entries() int {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	return p.Entries()
}

// countContenders returns the number of contenders in a list of a lock's children. If the parent's
// counter is at its end, waiting clients have no entry, so countContenders returns math.MaxInt.
func countContenders(children []string, stat *zk.Stat) int {
	if znode.Stat(*stat).Spent() {
		return math.MaxInt
	}
	return len(znode.Contenders(children))
}

// readRoom sets p.Room from the number of a semaphore's permits. With watch it returns a watch on
// the number. Without readRoom, a client whose entries hold all permits would not learn of added
// permits.
func (p *placed) readRoom(watch bool) (resized <-chan zk.Event) {
	if p.like.Kind != znode.Semaphore {
		return nil
	}
	v := newView(p.queue, p.like, p.lock)
	v.checked = anyGeneration
	capacity, resized, err := v.readCapacity(v.Closing, watch)
	if err == nil {
		p.lock.mu.Lock()
		defer p.lock.mu.Unlock()
		p.Room = int(max(1, capacity/v.Permits))
	}
	return resized
}

// endUnused withdraws an entry that no goroutine has, and deletes its node. If the entry was
// already lost, Changed has handled the loss.
func (e *Entry) endUnused() {
	if e.Withdraw() {
		e.Remove()
	}
}

// dropCached releases this client's cached leases at the lock, because they would be in the way of
// another request of this client.
func (s *lockState) dropCached() {
	s.mu.Lock()
	var all []*Entry
	for _, p := range s.places {
		if e, cached := p.Cached(); cached {
			p.Drop(e)
			all = append(all, e)
		}
		p.vacate()
	}
	s.mu.Unlock()
	for _, e := range all {
		e.endUnused()
	}
}
