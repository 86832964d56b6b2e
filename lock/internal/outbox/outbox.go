// Package outbox delivers a client's log lines and events in a goroutine of its own. A reader
// that blocks, such as a full pipe, delays the later deliveries, but no renewal and no end of a
// hold.
package outbox

import (
	"sync"
	"time"
)

// Outbox makes deliveries one after the other, in the order of Put. It has a goroutine only while
// there is something to deliver. All methods are safe for concurrent use.
type Outbox struct {
	most int // largest number of pending deliveries

	mu      sync.Mutex
	pending []func()      // the first one is under way
	ended   chan struct{} // closed when the last goroutine of run has ended; nil: there was none
	closed  bool
	dropped uint64
}

// New returns an outbox for at most that many pending deliveries, the one under way included.
func New(most int) *Outbox { return &Outbox{most: most} }

// Put adds a delivery. It never blocks: if the outbox is full or closed, it drops and counts
// the delivery.
func (o *Outbox) Put(deliver func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.pending) >= o.most {
		o.dropped++
		return
	}
	if o.pending = append(o.pending, deliver); len(o.pending) == 1 {
		o.ended = make(chan struct{})
		go o.run(deliver, o.ended)
	}
}

// run makes deliveries until none is pending.
func (o *Outbox) run(deliver func(), ended chan struct{}) {
	defer close(ended)
	for deliver != nil {
		deliver()
		deliver = o.next()
	}
}

// next removes the finished delivery, and returns the next one, or nil.
func (o *Outbox) next() func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[0] = nil
	if o.pending = o.pending[1:]; len(o.pending) == 0 {
		o.pending = nil
		return nil
	}
	return o.pending[0]
}

// Dropped returns the number of dropped deliveries.
func (o *Outbox) Dropped() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// Close waits for all pending deliveries, but at most for patience. Then it drops the deliveries
// that have not begun. It reports whether all pending deliveries were made. A delivery that blocks
// keeps its goroutine until it returns. From the call of Close on, Put drops.
func (o *Outbox) Close(patience time.Duration) bool {
	o.mu.Lock()
	o.closed = true
	idle, ended := len(o.pending) == 0, o.ended
	o.mu.Unlock()
	if idle {
		return true
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) == 0 {
		return true
	}
	o.dropped += uint64(len(o.pending) - 1)
	o.pending = o.pending[:1]
	return false
}
