package lock

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Limits of one transaction of renewals. The server cuts a connection that sends
// about 1 MB at once.
const (
	batchCount = 128
	batchBytes = 256 << 10
)

// earlyPart is by which part of its TTL a renewal may come early, to share a
// transaction with others.
const earlyPart = 16

// heartbeat is how often it is looked whether the machine was suspended.
const heartbeat = time.Second

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// renewer keeps the entries of a client alive: one goroutine, one queue ordered
// by what is due next, and renewals due together in one transaction (protocol:
// Hold, renew, lose).
type renewer struct {
	client *Client
	wake   chan struct{} // one token: something is due before the timer

	mu    sync.Mutex
	queue dueQueue
	armed time.Duration // monotonic time that the timer is set to
}

func newRenewer(c *Client) *renewer {
	return &renewer{client: c, wake: make(chan struct{}, 1), armed: never}
}

// schedule sets when the entry is looked at next.
func (r *renewer) schedule(e *entry, due time.Duration) {
	r.mu.Lock()
	e.due = due
	if e.index < 0 {
		heap.Push(&r.queue, e)
	} else {
		heap.Fix(&r.queue, int(e.index))
	}
	wake := due < r.armed
	r.mu.Unlock()
	if wake {
		select {
		case r.wake <- struct{}{}:
		default: // a token is there already
		}
	}
}

// remove forgets an entry that ended.
func (r *renewer) remove(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.index >= 0 {
		heap.Remove(&r.queue, int(e.index))
	}
}

// entries returns all entries that are alive.
func (r *renewer) entries() []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*entry(nil), r.queue...)
}

// run looks after the entries until ctx ends, and with it the holds. Those that are
// granted later end in take.
func (r *renewer) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := r.client.now()
	for {
		select {
		case <-timer.C:
		case <-r.wake:
		case <-ctx.Done():
			for _, e := range r.entries() {
				e.lose(ErrClosed)
			}
			return
		}
		now := r.client.now()
		if ahead(last, now) > MinGrace/4 {
			r.hurry()
		}
		last = now
		r.tick(ctx, now)
		r.mu.Lock()
		r.armed = never
		if len(r.queue) > 0 {
			r.armed = min(r.queue[0].due, now.mono+heartbeat)
			timer.Reset(max(0, r.armed-r.client.now().mono))
		}
		r.mu.Unlock()
	}
}

// hurry has all entries looked at now: the machine may have been suspended, while
// their timers stood still.
func (r *renewer) hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.queue {
		e.due = 0
	}
}

// renewal is a write of an entry on its way.
type renewal struct {
	*entry
	*write
}

// tick sees to all that is due. Where that leaves room in a transaction, what will
// be due soon is renewed along with it, and stays with it from then on; what does
// not fit has its own time, so that many holds make many transactions one after the
// other and not at once.
func (r *renewer) tick(ctx context.Context, now instant) {
	var batch []renewal
	size := 0
	send := func() {
		full := batch
		r.client.background(func() { r.flush(ctx, full) })
		batch, size = nil, 0
	}
	renew := func(due []*entry) {
		for _, e := range due {
			w := e.tick(now)
			if w == nil {
				continue
			}
			if len(batch) == batchCount || size+len(w.data)+len(e.path) > batchBytes {
				send()
			}
			batch = append(batch, renewal{e, w})
			size += len(w.data) + len(e.path) + 64
		}
	}
	renew(r.take(math.MaxInt, func(e *entry) bool { return e.due <= now.mono }))
	if len(batch) > 0 {
		renew(r.take(batchCount-len(batch), func(e *entry) bool { return e.due <= now.mono+e.TTL/earlyPart }))
		send()
	}
}

// take returns at most n entries, those that are due first, as long as due says
// that they are. They are not taken again before they have been scheduled.
func (r *renewer) take(n int, due func(*entry) bool) []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var taken []*entry
	for len(taken) < n && len(r.queue) > 0 && due(r.queue[0]) {
		e := r.queue[0]
		taken = append(taken, e)
		e.due = never
		heap.Fix(&r.queue, 0)
	}
	return taken
}

// flush writes the batch in one transaction, and goes on until each write has
// been acknowledged or has become pointless. A write of unknown outcome is sent
// again with the same bytes on the same version, so at most one of them counts.
func (r *renewer) flush(ctx context.Context, batch []renewal) {
	c := r.client
	spread := c.cfg.jitter(1<<20, 1<<17) // one for the batch, so that it stays together
	next := func(w *write) time.Duration { return w.ttl / 3 * spread >> 20 }
	tried := false // an attempt may have been applied
	for wait := c.cfg.newBackoff(20*time.Millisecond, time.Second); ; {
		var ops []any
		still := batch[:0]
		for _, b := range batch {
			if version, wanted := b.attempt(b.write); wanted {
				still = append(still, b)
				ops = append(ops, &zk.SetDataRequest{Path: b.path, Data: b.data, Version: version})
			}
		}
		if batch = still; len(batch) == 0 {
			return
		}
		session, sent := c.session(), c.now()
		replies, err := c.conn.multi(ctx, nil, ops...)
		if err == nil {
			received := c.now()
			c.clock.observe(replies[0].Stat.Mzxid, replies[0].Stat.Mtime, sent, received) // the same for all
			for i, b := range batch {
				b.acknowledge(b.write, sent, session, replies[i].Stat.Version, next(b.write), received)
			}
			c.stats.renewals.Add(uint64(len(batch)))
			return
		}
		if ctx.Err() != nil {
			return
		}
		if i, err := refusedOp(err); i >= 0 && outcomeOf(err) == refused {
			b := batch[i]
			switch {
			case errors.Is(err, zk.ErrNoNode):
				b.vanished()
			case errors.Is(err, zk.ErrBadVersion):
				if r.readBack(ctx, b, tried) {
					// All who are in the batch now were in each attempt, and it was
					// applied whole. It may have been any: the leases run from the first.
					received := c.now()
					for i, b := range batch {
						b.acknowledge(b.write, b.first, session, ops[i].(*zk.SetDataRequest).Version+1, next(b.write), received)
					}
					c.stats.renewals.Add(uint64(len(batch)))
					return
				}
			default:
				c.cfg.log.Error().Err(err).Str("lock", b.lock).Str("entry", b.path).
					Msg("renewal refused; the hold is lost at the end of its lease unless a later one succeeds")
				b.postpone(b.write)
			}
			batch = append(batch[:i], batch[i+1:]...)
			continue
		}
		if outcomeOf(err) == refused { // as a whole
			for _, b := range batch {
				b.postpone(b.write)
			}
			c.cfg.log.Error().Err(err).Int("entries", len(batch)).Msg("renewals refused")
			return
		}
		tried = tried || outcomeOf(err) == uncertain
		if wait.sleep(ctx) != nil {
			return
		}
	}
}

// readBack finds out whose write stands in an entry that was found at another
// version. It reports whether it is an earlier attempt of ours, if there was one
// whose reply was lost.
func (r *renewer) readBack(ctx context.Context, b renewal, tried bool) bool {
	n, err := r.client.conn.get(ctx, b.path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		b.vanished()
	case err != nil:
		b.postpone(b.write)
	case tried && bytes.Equal(n.data, b.data):
		return true
	default:
		b.overwritten()
	}
	return false
}

// dueQueue is a heap of entries, the one due first on top.
type dueQueue []*entry

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i), int32(j)
}
func (q *dueQueue) Push(x any) {
	e := x.(*entry)
	e.index = int32(len(*q))
	*q = append(*q, e)
}
func (q *dueQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q, e.index = (*q)[:last], -1
	return e
}
