package queue

import (
	"math"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/place"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// countEvery is twice the shortest time between two counts of the contenders while local waiters
// wait.
const countEvery = 10 * time.Millisecond

// countOthersSoon schedules a count of the contenders if it is needed; lock.mu is held. If other
// processes contend, the first local waiter joins while the entry is still held. So its place in
// the queue is the same as without local handoff.
func (p *placed) countOthersSoon() {
	if p.counting || !p.CountDue() || p.queue.Closing.Err() != nil {
		return
	}
	p.counting = true
	// Count before the window ends, and less and less often during a long hold.
	wait := max(p.Window, countEvery) / 2
	if e, held := p.Holder(); held {
		wait = min(max(wait, (p.queue.Clock.Mono()-e.HeldSince())/4), readAgainAfter)
	}
	time.AfterFunc(wait, func() {
		if !p.queue.Tasks.Go(p.countOthers) {
			p.lock.mu.Lock()
			p.counting = false
			p.lock.mu.Unlock()
		}
	})
}

// countOthers lists the contenders once and counts them.
func (p *placed) countOthers() {
	p.lock.mu.Lock()
	due, began := p.CountDue(), p.queue.Clock.Mono()
	p.lock.mu.Unlock()
	contenders := 0
	if due {
		children, stat, err := p.queue.Conn.Children(p.queue.Closing, p.queue.Path(p.like.Lock))
		if contenders = math.MaxInt; err == nil { // on an error, unknown: the waiters join
			contenders = countContenders(children, stat)
		}
		p.readRoom()
	}
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	if p.counting = false; due && p.Counted(began, contenders) {
		p.begin(nil, place.Enter, place.Use{})
	}
	p.goOn()
}

// countContenders returns the number of contenders in a list of a lock's children. If the
// parent's counter is at its end, waiting clients have no entry, so it returns a very large
// number.
func countContenders(children []string, stat *zk.Stat) int {
	if znode.Stat(*stat).Spent() {
		return math.MaxInt
	}
	return len(znode.Contenders(children))
}

// entries returns the number of the place's entries at the lock.
func (p *placed) entries() int {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	return p.Entries()
}

// readRoom reads the number of a semaphore's permits. If this client's entries hold all permits
// there were, none of its waiters in the queue would learn of more.
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
