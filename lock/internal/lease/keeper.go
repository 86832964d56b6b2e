package lease

import (
	"container/heap"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// earlyPart is by which part of its TTL a renewal may come early, to share a
// transaction with others.
const earlyPart = 16

// heartbeat is how often it is looked whether the machine was suspended.
const heartbeat = time.Second

// Never is a time that does not come.
const Never = time.Duration(math.MaxInt64)

// Keeper keeps the entries of a client alive: one goroutine, one queue ordered
// by what is due next, and renewals due together in one transaction. All methods are
// safe for concurrent use.
type Keeper struct {
	conn  *zkconn.Conn
	clock *clock.Clock
	log   zerolog.Logger
	who   znode.Record                            // owner, host and pid of all records
	vary  func(d, by time.Duration) time.Duration // d plus or minus at most by
	run   func(func())                            // in the background, for as long as the client waits for it

	together zkconn.Batch // renewals
	renewals atomic.Uint64
	wake     chan struct{} // one token: something is due before the timer
	outage   atomic.Bool   // one has ended
	term     atomic.Int64  // of the leader's clock, for which all entries were renewed

	mu    sync.Mutex
	queue dueQueue
	armed time.Duration // monotonic time that the timer is set to
}

// Options are what a keeper works with.
type Options struct {
	Conn   *zkconn.Conn                            // that entries are written by
	Clock  *clock.Clock                            // is told the stamp of each renewal
	Log    zerolog.Logger                          // where refused renewals are told
	Who    znode.Record                            // owner, host and pid of all records
	Jitter func(d, by time.Duration) time.Duration // d plus or minus at most by
	Run    func(func())                            // runs in the background; the closing client waits for it
}

// NewKeeper returns a keeper. It keeps nothing alive before Run is called.
func NewKeeper(o Options) *Keeper {
	return &Keeper{
		conn: o.Conn, clock: o.Clock, log: o.Log, who: o.Who, vary: o.Jitter, run: o.Run,
		together: zkconn.Batch{Most: batchBytes}, wake: make(chan struct{}, 1), armed: Never,
	}
}

// Record encodes what stands in an entry: its expiry is counted from the latest
// that the leader's clock may show, but a window that is wide, for want of a
// young sample, makes it no later than a quarter of the grace.
func (k *Keeper) Record(t *Terms, ttl time.Duration, g Grant, at clock.Instant) []byte {
	r := k.who
	r.Metadata, r.TTL, r.Attempt = t.Metadata, ttl.Milliseconds(), znode.FormatID(t.Attempt)
	r.AcquiredAt, r.Shared = g.Acquired, g.Shared
	r.Incarnation, r.Detached, r.Attachment = t.Incarnation, t.Detached, t.Attachment
	if now := k.clock.Ensemble.Now(at); now.Zxid != 0 {
		r.ExpiresAt = (min(now.Upper, now.Lower+t.Grace/4) + ttl).Milliseconds()
	}
	return r.Encode()
}

// renewAfter is how long after a write the next one is due.
func (k *Keeper) renewAfter(ttl time.Duration) time.Duration { return k.vary(ttl/3, ttl/30) }

// Renewals is how many entries were written again.
func (k *Keeper) Renewals() uint64 { return k.renewals.Load() }

// Entries returns all entries that are alive.
func (k *Keeper) Entries() []*Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*Entry(nil), k.queue...)
}

// Keeps reports whether there is an entry of that path.
func (k *Keeper) Keeps(path string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.queue, func(e *Entry) bool { return e.Path == path })
}

// Reconnected says that an outage has ended: another server may lead by now. One entry is
// renewed at once. If the reply shows a new term, all others are too.
func (k *Keeper) Reconnected() {
	k.outage.Store(true)
	k.nudge()
}

// observe takes the stamp of a write of ours.
func (k *Keeper) observe(stat *zk.Stat, sent, received clock.Instant) {
	k.clock.Observe(stat.Mzxid, stat.Mtime, sent, received)
	if k.clock.Now().Term > k.term.Load() {
		k.nudge()
	}
}

// renewOld begins renewals that need not be due. In a new term of the leader's clock, living
// entries are to have a stamp of that term early: an entry is renewed unless its last
// acknowledged write was made in it. After an outage one entry is, to learn the term. So a
// connection that breaks often costs one write each time, whatever the number of entries.
func (k *Keeper) renewOld(now clock.Instant) {
	term := k.clock.Now().Term
	outage, newer := k.outage.Swap(false), term > k.term.Swap(term)
	if !outage && !newer {
		return
	}
	for _, e := range k.Entries() {
		if renewed := e.renewNow(now, term, newer); renewed && !newer {
			return
		}
	}
}

func (k *Keeper) nudge() {
	select {
	case k.wake <- struct{}{}:
	default: // a token is there already
	}
}

// Run looks after the entries until ctx ends, and then ends the holds for its cause.
func (k *Keeper) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := k.clock.Local()
	for {
		woken := false
		select {
		case <-timer.C:
		case <-k.wake:
			woken = true
		case <-ctx.Done():
			for _, e := range k.Entries() {
				e.Lose(context.Cause(ctx))
			}
			return
		}
		now := k.clock.Local()
		if clock.Drift(last, now) > clock.MinGrace/4 {
			k.lookAtAll()
		}
		last = now
		k.renewOld(now)
		k.tick(ctx, now)
		k.mu.Lock()
		k.armed = Never
		if len(k.queue) > 0 || woken { // what has ended already is often taken again: that need not wake us
			k.armed = now.Mono + heartbeat
			if len(k.queue) > 0 {
				k.armed = min(k.armed, k.queue[0].due)
			}
			timer.Reset(max(0, k.armed-k.clock.Mono()))
		}
		k.mu.Unlock()
	}
}

// lookAtAll has all entries looked at now: the machine may have been suspended, while
// their timers stood still.
func (k *Keeper) lookAtAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.queue {
		e.due = 0
	}
}

// tick does all that is due. Where that leaves room in a transaction, what will
// be due soon is renewed along with it, and stays with it from then on; what does
// not fit has its own time, so that many holds make many transactions one after the
// other and not at once.
func (k *Keeper) tick(ctx context.Context, now clock.Instant) {
	var batch []renewal
	size, most := 0, k.together.Limit(now.Mono)
	send := func() {
		full := batch
		k.run(func() { k.flush(ctx, full) })
		batch, size = nil, 0
	}
	renew := func(due []*Entry) {
		for _, e := range due {
			w := e.tick(now)
			if w == nil {
				continue
			}
			r := renewal{e, w}
			if len(batch) == batchCount || len(batch) > 0 && size+r.size() > most {
				send()
			}
			batch = append(batch, r)
			size += r.size()
		}
	}
	renew(k.take(math.MaxInt, func(e *Entry) bool { return e.due <= now.Mono }))
	if len(batch) > 0 {
		renew(k.take(batchCount-len(batch), func(e *Entry) bool { return e.due <= now.Mono+e.TTL/earlyPart }))
		send()
	}
}

// take returns at most n entries, those that are due first, as long as due says
// that they are. They are not taken again before they have been scheduled.
func (k *Keeper) take(n int, due func(*Entry) bool) []*Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	var taken []*Entry
	for len(taken) < n && len(k.queue) > 0 && due(k.queue[0]) {
		e := k.queue[0]
		taken = append(taken, e)
		e.due = Never
		heap.Fix(&k.queue, 0)
	}
	return taken
}

// schedule sets when the entry is looked at next. A timer that is overdue has stood still
// while the machine was suspended, and for how much longer it runs is not known.
func (k *Keeper) schedule(e *Entry, due, now time.Duration) {
	k.mu.Lock()
	e.due = due
	if e.index < 0 {
		heap.Push(&k.queue, e)
	} else {
		heap.Fix(&k.queue, int(e.index))
	}
	wake := due < k.armed || k.armed < now
	k.mu.Unlock()
	if wake {
		k.nudge()
	}
}

// remove forgets an entry that ended.
func (k *Keeper) remove(e *Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.index >= 0 {
		heap.Remove(&k.queue, int(e.index))
	}
}

// dueQueue is a heap of entries, the one due first on top.
type dueQueue []*Entry

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i), int32(j)
}
func (q *dueQueue) Push(x any) {
	e := x.(*Entry)
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
