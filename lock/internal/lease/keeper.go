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

// heartbeat is the interval of checks for a suspend of the machine.
const heartbeat = time.Second

// Never is a monotonic time later than all others.
const Never = time.Duration(math.MaxInt64)

// Keeper renews the entries of a client: one goroutine, one queue ordered by due time, and
// renewals batched in transactions. All methods are safe for concurrent use.
type Keeper struct {
	Options

	renewals atomic.Uint64 // see Renewals
	wake     chan struct{} // buffer of one: wakes Run before its timer
	outage   atomic.Bool   // an outage has ended since the last renewOld
	term     atomic.Int64  // newest term of the leader's clock that renewOld has seen

	mu    sync.Mutex
	queue dueQueue
	armed time.Duration // monotonic time at which the timer fires; Never: it is not set
}

// Options has the parts and settings of a keeper.
type Options struct {
	Conn       *zkconn.Conn                            // writes the entries
	Clock      *clock.Clock                            // receives the stamp of each renewal
	Log        zerolog.Logger                          // receives refused renewals
	Who        znode.Record                            // owner, host and pid of all records
	Jitter     func(d, by time.Duration) time.Duration // returns d plus or minus at most by
	Background func(func())                            // runs in the background; the closing client waits for it
}

// NewKeeper returns a keeper. It renews nothing before Run is called.
func NewKeeper(o Options) *Keeper {
	return &Keeper{Options: o, wake: make(chan struct{}, 1), armed: Never}
}

// Record returns the record of an entry. expires_at is ttl after the upper bound of the leader's
// clock. An old sample makes the bounds wide. So the upper bound counts only up to a quarter of the
// grace after the lower bound. Without a sample expires_at is 0.
func (k *Keeper) Record(t *Terms, ttl time.Duration, g Grant, at clock.Instant) znode.Record {
	r := k.Who
	r.Metadata, r.TTL, r.Attempt = t.Metadata, ttl.Milliseconds(), znode.FormatID(t.Attempt)
	r.AcquiredAt, r.Shared = g.Acquired, g.Shared
	r.Incarnation, r.Detached, r.Attachment = t.Incarnation, t.Detached, t.Attachment
	if now := k.Clock.Ensemble.Now(at); now.Zxid != 0 {
		r.ExpiresAt = (min(now.Upper, now.Lower+t.Grace/4) + ttl).Milliseconds()
	}
	return r
}

// Renewals returns the number of acknowledged writes of entries after their create, transactions
// with operations of the user included.
func (k *Keeper) Renewals() uint64 { return k.renewals.Load() }

// Entries returns the entries that wait or are held.
func (k *Keeper) Entries() []*Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*Entry(nil), k.queue...)
}

// Keeps reports whether Entries has an entry with that path.
func (k *Keeper) Keeps(path string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.queue, func(e *Entry) bool { return e.Path == path })
}

// Reconnected must be called when an outage has ended: the leader may have changed. The keeper
// renews one entry at once. If the reply shows a new term, it renews all other entries too.
func (k *Keeper) Reconnected() {
	k.outage.Store(true)
	k.nudge()
}

// observe passes the leader's stamp of a write to the clock. If the stamp is of a new term, it wakes
// Run to renew all entries.
func (k *Keeper) observe(stat *zk.Stat, sent, received clock.Instant) {
	k.Clock.Observe(stat.Mzxid, stat.Mtime, sent, received)
	if k.Clock.Now().Term > k.term.Load() {
		k.nudge()
	}
}

func (k *Keeper) nudge() {
	select {
	case k.wake <- struct{}{}:
	default: // a token is there already
	}
}

// Run renews the entries until ctx ends, and then ends all holds as lost, with the error of ctx, see
// [zkconn.ContextError]. It must
// be called once.
func (k *Keeper) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := k.Clock.Local()
	for {
		woken := false
		select {
		case <-timer.C:
		case <-k.wake:
			woken = true
		case <-ctx.Done():
			for _, e := range k.Entries() {
				e.Lose(zkconn.ContextError(ctx))
			}
			return
		}
		now := k.Clock.Local()
		if clock.Drift(last, now) > clock.MinGrace/4 {
			k.lookAtAll()
		}
		last = now
		k.renewOld(now)
		k.renewDue(ctx, now)
		k.mu.Lock()
		k.armed = Never
		// An ended entry is often followed at once by a new one, which need not wake Run if the timer is
		// still set.
		if len(k.queue) > 0 || woken {
			k.armed = now.Mono + heartbeat
			if len(k.queue) > 0 {
				k.armed = min(k.armed, k.queue[0].due)
			}
			timer.Reset(max(0, k.armed-k.Clock.Mono()))
		}
		k.mu.Unlock()
	}
}

// lookAtAll makes all entries due now: the machine may have been suspended, and timers stood still
// meanwhile.
func (k *Keeper) lookAtAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.queue {
		e.due = 0
	}
}

// setDue sets the time of the entry's next tick, which [Entry.schedule] decides. It wakes Run if its
// timer fires later, or is overdue: the machine may have been suspended, and the timer would fire too
// late.
func (k *Keeper) setDue(e *Entry, due, now time.Duration) {
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

func (k *Keeper) remove(e *Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.index >= 0 {
		heap.Remove(&k.queue, int(e.index))
	}
}

// dueQueue is a heap of entries; the first one due is on top.
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
