package queue

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/place"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// hasPlace reports whether a request can share its entry with other requests of this process. A
// candidate's request cannot. A reader's request can if it has a window and no MaxHold.
func (r *Request) hasPlace() bool {
	return r.Priority == 0 && (r.Role != znode.Shared || r.Terms.MaxHold == 0 && r.Window > 0)
}

// alike reports whether an entry that was created for one of the requests suits the other one.
func (r *Request) alike(o *Request) bool {
	return r.Kind == o.Kind && r.Role == o.Role && r.Permits == o.Permits && r.Capacity == o.Capacity &&
		r.KeepParent == o.KeepParent && r.Barging == o.Barging && r.Window == o.Window &&
		r.Terms.Alike(&o.Terms)
}

// digest returns a number that requests that are alike share. Thousands of requests for one lock may
// differ, mostly in their metadata or times; with the number a place is found without comparing them all.
func (r *Request) digest() uint64 {
	sum := maphash.Comparable(digestSeed, [2]time.Duration{r.Terms.TTL, r.Terms.MaxHold})
	for key, value := range r.Terms.Metadata {
		sum += maphash.Comparable(digestSeed, [2]string{key, value})
	}
	return sum
}

var digestSeed = maphash.MakeSeed()

// Acquire queues up and waits until it holds the lock, or ctx ends. If ctx ends, the error is ctx's
// with its cause, and a [Blocked] if a contender was in the way. It fails at once with ErrForeign,
// ErrKind, ErrPermits, ErrExhausted, zkconn.ErrDenied and zkconn.ErrClosed. It waits out outages. A barging
// request waits without an entry, and joins when it finds the lock free.
func (q *Queue) Acquire(ctx context.Context, r Request) (*Entry, error) {
	if !r.hasPlace() {
		return q.byItself(ctx, r, (*contender).acquire)
	}
	lock := q.open(r.Lock, r.KeepParent)
	defer q.close(lock)
	w := place.NewWaiter[*Entry](&r)
	p, e := lock.takePlace(q, w, &r)
	if e != nil {
		return e, nil
	}
	q.waiters.Add(1)
	defer q.waiters.Add(-1)
	select {
	case turn := <-w.Served:
		return turn.Entry, turn.Err
	case <-ctx.Done():
	}
	return nil, p.giveUp(ctx, w)
}

// gaveUp returns the error of a call whose context has ended; inTheWay is the contender that the
// call waited for, or nil. Without a session the error also wraps ErrUnavailable.
func (q *Queue) gaveUp(ctx context.Context, inTheWay *Blocked) error {
	err := zkconn.ContextError(ctx)
	if connected, _ := q.Conn.SessionState(); !connected && !errors.Is(err, zkconn.ErrClosed) {
		err = fmt.Errorf("%w: %w", q.Conn.NoSession(), err)
	}
	if inTheWay == nil {
		return err
	}
	blocked := *inTheWay
	blocked.Ended = err
	return &blocked
}

// contender is one request that joins the queue of a lock and waits there.
type contender struct {
	view
	placed *placed // place that it joins for; nil: it joins for its caller alone
	trying bool    // it does not wait: the call is a try

	entriesAhead int                           // number of entries ahead, at the last count
	waiting      func(entry string, ahead int) // called when the contender has to wait, with its entry's path
}

// newContender returns a contender. The caller must close its lock state.
func newContender(q *Queue, r Request) *contender {
	return &contender{view: newView(q, r, q.open(r.Lock, r.KeepParent)), waiting: func(string, int) {}}
}

// byItself calls run for a new contender, see [abandonable]: run takes the lock with an entry that
// no other request shares. If ctx ends first, an entry that run still returns is withdrawn.
func (q *Queue) byItself(ctx context.Context, r Request, run func(*contender, context.Context) (*Entry, error)) (*Entry, error) {
	c := newContender(q, r)
	return abandonable(ctx, q, []*contender{c}, func(ctx context.Context) (*Entry, error) {
		return run(c, ctx)
	}, func(e *Entry) {
		if e != nil { // a resize returns no entry
			e.withdraw()
		}
	})
}

// abandonable calls f for the contenders, and then closes their lock states. If ctx ends first, it
// returns gaveUp's error at once. Then the context of f ends, and undo is called if f still
// succeeds.
func abandonable[T any](ctx context.Context, q *Queue, cs []*contender, f func(context.Context) (T, error), undo func(T)) (value T, err error) {
	var inTheWay atomic.Pointer[Blocked]
	for _, c := range cs {
		var waits atomic.Bool
		c.blocker = func(b *Blocked) { inTheWay.Store(b) }
		c.waiting = func(entry string, ahead int) {
			if !waits.Swap(true) {
				q.Waits(c.Values, &c.Request, entry, ahead)
			}
		}
	}
	q.waiters.Add(1)
	defer q.waiters.Add(-1)
	type result struct {
		value T
		err   error
	}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan result) // unbuffered: the sender knows whether the result was received
	q.Tasks.Go(func() {       // succeeds: the call is a task, too
		for _, c := range cs {
			defer q.close(c.lock)
		}
		defer cancel(nil)
		value, err := f(inner)
		select {
		case done <- result{value, err}:
		case <-ctx.Done():
			if err == nil {
				undo(value)
			}
		}
	})
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		cancel(context.Cause(ctx))
		return value, q.gaveUp(ctx, inTheWay.Load())
	}
}

// acquire joins, waits, and grants the entry. If the entry is lost before the grant, or must yield to a
// candidate of a higher priority, acquire withdraws it and begins again.
func (c *contender) acquire(ctx context.Context) (*Entry, error) {
	for {
		e, err := c.obtain(ctx, nil, position{})
		if err != nil {
			return nil, err
		}
		if err = c.checkRank(ctx, e); err == nil {
			err = c.grant(ctx, e)
		}
		if err == nil {
			return e, nil
		}
		if e.withdraw(); !errors.Is(err, errOutranked) && !errors.Is(err, lease.ErrGone) {
			return nil, err
		}
	}
}

// obtain returns an entry whose turn has come: the given entry, or a new one if e is nil. If the
// entry is lost during the wait, obtain joins again at the end. A try does not wait: if a contender
// has joined since the lock looked free, the error is a Blocked.
func (c *contender) obtain(ctx context.Context, e *Entry, p position) (_ *Entry, err error) {
	for {
		if e == nil {
			if e, p, err = c.join(ctx); err != nil {
				return nil, err
			}
		}
		if err = c.wait(ctx, e, p); err == nil {
			return e, nil
		}
		e.withdraw()
		if !errors.Is(err, lease.ErrGone) {
			return nil, err
		}
		if !c.trying {
			c.requeued.Add(1)
			c.Log.Warn().Str("lock", c.Lock).Str("entry", e.Path).AnErr("why", e.Err()).Msg("lost the place in the queue; queueing again at the end")
		}
		e = nil
	}
}

// recordAfter is the time from a grant to the write that records it. A waiter behind a recorded
// grant need not list when the holder leaves. A hold shorter than recordAfter ends without that
// write.
const recordAfter = 300 * time.Microsecond

// recordAt returns the monotonic time at which the grant of an entry is recorded. It is lease.Never
// for a lone entry, because a client that joins behind a lone entry knows that the entry holds the
// lock; and for a reader's, because the record of its grant would prove nothing.
func (r *Request) recordAt(e *Entry, now time.Duration) time.Duration {
	if e.alone || r.Role == znode.Shared {
		return lease.Never
	}
	return now + recordAfter
}

// grant turns an entry whose turn has come into a hold. The grant of a leader is recorded
// first, because observers must see it.
func (c *contender) grant(ctx context.Context, e *Entry) error {
	now := c.Clock.Local()
	if err := e.Grant(c.Values, now, c.recordAt(e, now.Mono)); err != nil {
		return lease.ErrGone
	}
	if c.Priority == 0 || e.Recorded() {
		return nil
	}
	for {
		if err := e.Refresh(ctx); err != nil && e.Err() != nil {
			return lease.ErrGone // no goroutine has had the hold
		} else if err != nil {
			return err
		}
		if !e.IsOver() { // the lease may be over if the reply was late, or the machine suspended
			return nil
		}
	}
}

// successor returns a new Entry for the node of an unlocked entry, see [lease.Entry.Succeed]. It
// waits until no write of the unlocked entry is in flight.
func (e *Entry) successor(ctx context.Context) (*Entry, error) {
	n := &Entry{
		Kind: e.Kind, queue: e.queue, lock: e.lock, place: e.place, czxid: e.czxid,
		parentVersion: e.parentVersion, alone: e.alone, adopted: e.adopted, keepParent: e.keepParent,
	}
	if err := n.Succeed(ctx, n, &e.Entry); err != nil {
		return nil, err
	}
	e.handedOff.Store(true)
	return n, nil
}

// noWait is a context that has ended. A call with it fails instead of waiting.
var noWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
