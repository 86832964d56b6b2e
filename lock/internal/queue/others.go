package queue

import (
	"math"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/place"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// countEvery is twice the shortest time between two counts of the contenders, while goroutines
// wait for an entry of their place.
const countEvery = 10 * time.Millisecond

// countOthersSoon counts the contenders in a while, if that is of use; lock.mu is held. If other
// processes contend, the first waiter joins while the entry is still held: its place in the
// queue is then that of a client without local waiters.
func (p *placed) countOthersSoon() {
	if p.counting || !p.CountDue() || p.queue.Closing.Err() != nil {
		return
	}
	p.counting = true
	// Before the window ends, and during a long hold more and more rarely.
	wait := max(p.Window, countEvery) / 2
	if e, held := p.Holder(); held {
		wait = min(max(wait, (p.queue.Clock.Mono()-e.HeldSince())/4), readAgainAfter)
	}
	time.AfterFunc(wait, func() {
		if !p.queue.background(p.countOthers) {
			p.lock.mu.Lock()
			p.counting = false
			p.lock.mu.Unlock()
		}
	})
}

// countOthers counts the contenders, by one list.
func (p *placed) countOthers() {
	p.lock.mu.Lock()
	due, began := p.CountDue(), p.queue.Clock.Mono()
	p.lock.mu.Unlock()
	contenders := 0
	if due {
		children, stat, err := p.queue.Conn.Children(p.queue.Closing, p.queue.Path(p.like.Lock))
		if contenders = math.MaxInt; err == nil { // else unknown: the waiters join
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

// countContenders is how many contenders a list of a lock's children shows. If the parent's counter
// is at its end, clients that wait have no entry: then they count as very many.
func countContenders(children []string, stat *zk.Stat) int {
	if znode.Stat(*stat).Spent() {
		return math.MaxInt
	}
	return len(znode.Contenders(children))
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
