package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/place"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// hasPlace reports whether a request shares its entry with others of this process, one after
// the other: a fixed lease and a candidate have entries of their own, and so have readers
// with a limit of their own.
func (r *Request) hasPlace() bool {
	return !r.Terms.Fixed && !r.Terms.Detached && r.Priority == 0 && (r.Role != znode.Shared || r.Terms.MaxHold == 0)
}

// MayKeep is for how long the request's entry is kept unused, if it asks for so long.
func (r *Request) MayKeep(idle time.Duration) time.Duration {
	if !r.hasPlace() || r.Role == znode.Shared {
		return 0
	}
	return idle
}

// likeness is what requests for one lock have in common that can have the same entry, one
// after the other.
type likeness struct {
	kind                              znode.Kind
	role                              znode.Role
	permits, capacity                 int32
	keepParent, barging               bool
	window, idle, ttl, grace, maxHold time.Duration
	metadata                          string
}

// likeness is that of the request for a resting entry.
func (e *Entry) likeness() likeness {
	r := Request{Kind: e.Kind, Role: e.Name().Role, KeepParent: e.keepsParent, Barging: e.barging, Window: time.Duration(e.window) * time.Millisecond, Terms: e.TermsNow()}
	return r.likeness()
}

func (r *Request) likeness() likeness {
	t := &r.Terms
	l := likeness{
		kind: r.Kind, role: r.Role, permits: r.Permits, capacity: r.Capacity, keepParent: r.KeepParent, barging: r.Barging,
		window: r.Window, idle: r.Idle, ttl: t.TTL, grace: t.Grace, maxHold: t.MaxHold,
	}
	if len(t.Metadata) > 0 {
		l.metadata = fmt.Sprintf("%q", t.Metadata) // sorted by the keys
	}
	return l
}

// Acquire queues up and waits until the lock is acquired, or ctx ends: the error is then
// ctx's with its cause, and a [Blocked] if a contender was seen in the way. It fails at once
// with ErrForeign, ErrKind, zkconn.ErrDenied and zkconn.ErrClosed. Outages are waited out.
// A request that barges takes the lock when it finds it free.
func (q *Queue) Acquire(ctx context.Context, r Request) (*Entry, error) {
	if !r.hasPlace() {
		return q.byItself(ctx, r, (*contender).acquire)
	}
	lock := q.open(r.Lock, r.KeepParent)
	defer q.close(lock)
	w := place.NewWaiter[*Entry](&r)
	p, e, inline := q.takePlace(lock, w, &r, ctx.Done() == nil)
	if e != nil {
		return e, nil
	}
	q.waiters.Add(1)
	defer q.waiters.Add(-1)
	if inline != nil {
		p.join(zkconn.Uncancellable(q.Closing), inline, nil, place.Enter)
	}
	select {
	case turn := <-w.Served:
		return turn.Entry, turn.Err
	case <-ctx.Done():
	}
	return nil, p.giveUp(ctx, w)
}

// gaveUp is the error of a call whose context has ended while that contender was in the way.
func (q *Queue) gaveUp(ctx context.Context, inTheWay *Blocked) error {
	err := zkconn.ContextError(ctx)
	if connected, _ := q.Conn.SessionState(); !connected && !errors.Is(err, zkconn.ErrClosed) {
		err = fmt.Errorf("%w: %w", zkconn.ErrUnavailable, err)
	}
	if inTheWay != nil {
		err = fmt.Errorf("%w: %w", inTheWay, err)
	}
	return err
}

// byItself runs what takes the lock by an entry of its own, in a goroutine of its own: when
// ctx ends the caller returns at once, and what was begun is undone.
func (q *Queue) byItself(ctx context.Context, r Request, run func(*contender, context.Context) (*Entry, error)) (*Entry, error) {
	c := q.newContender(r)
	return abandonable(ctx, q, []*contender{c}, func(ctx context.Context) (*Entry, error) {
		return run(c, ctx)
	}, func(e *Entry) {
		if e != nil { // a resize has none
			c.withdraw(e)
		}
	})
}

// abandonable runs f for the contenders, and gives back their lock states when it has ended.
// If ctx ends before, it returns at once; the context of f ends, and undo is called with what
// f returns all the same.
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
	end := func() {
		for _, c := range cs {
			q.close(c.lock)
		}
	}
	q.waiters.Add(1)
	defer q.waiters.Add(-1)
	if ctx.Done() == nil {
		defer end()
		return f(ctx)
	}
	type result struct {
		value T
		err   error
	}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan result) // unbuffered: either side knows whether the other took it
	if !q.background(func() {
		defer end()
		defer cancel(nil)
		value, err := f(inner)
		select {
		case done <- result{value, err}:
		case <-ctx.Done():
			if err == nil {
				undo(value)
			}
		}
	}) {
		end()
		cancel(nil)
		return value, zkconn.ErrClosed
	}
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		cancel(context.Cause(ctx))
		return value, q.gaveUp(ctx, inTheWay.Load())
	}
}

// acquire takes the lock by an entry of its own, and grants it.
func (c *contender) acquire(ctx context.Context) (*Entry, error) {
	for {
		e, err := c.obtain(ctx, nil, position{})
		if err != nil {
			return nil, err
		}
		switch err = c.yield(ctx, e); {
		case err == nil:
			if err = c.grant(ctx, e); err == nil {
				return e, nil
			}
			fallthrough
		default:
			c.withdraw(e)
			if !errors.Is(err, errOutranked) && !errors.Is(err, lease.ErrGone) {
				return nil, err
			}
		}
	}
}

// obtain returns an entry whose turn has come: the one that is given, or one that joins. One
// that is lost meanwhile queues again at the end.
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
		c.withdraw(e)
		if !errors.Is(err, lease.ErrGone) {
			return nil, err
		}
		c.requeued.Add(1)
		c.Log.Warn().Str("lock", c.Lock).Str("entry", e.Path).AnErr("why", e.Err()).Msg("lost the place in the queue; queueing again at the end")
		e = nil
	}
}

// recordAfter is how long a hold lasts before its grant is recorded, so that the next waiter
// need not list. Shorter holds are over before.
const recordAfter = 300 * time.Microsecond

// recordAt is when the grant of an entry is to be recorded: a client that joins behind one
// that was alone knows that it holds, and that a reader does tells nothing.
func (c *contender) recordAt(e *Entry, now time.Duration) time.Duration {
	if e.alone || c.Role == znode.Shared {
		return lease.Never
	}
	return now + recordAfter
}

// grant makes a hold of an entry whose turn has come. That of a fixed lease and of a leader is
// recorded before: no other write would follow, and observers are to see the leader.
func (c *contender) grant(ctx context.Context, e *Entry) error {
	now := c.Clock.Local()
	if err := e.Grant(c.Values, now, c.recordAt(e, now.Mono)); err != nil {
		return lease.ErrGone
	}
	if !c.Terms.Fixed && c.Priority == 0 || e.Recorded() {
		return nil
	}
	for {
		if err := e.Refresh(ctx); err != nil && e.Err() != nil {
			return lease.ErrGone // before any goroutine had it
		} else if err != nil {
			return err
		}
		if !e.IsOver() { // as it may be by a reply that came late, to a machine that slept
			return nil
		}
	}
}

// next returns the entry that goes on by the node of one that was unlocked. It waits until
// no write of that is on its way.
func (e *Entry) next(ctx context.Context) (*Entry, error) {
	n := &Entry{
		Kind: e.Kind, queue: e.queue, lock: e.lock, place: e.place, czxid: e.czxid,
		parentVersion: e.parentVersion, generated: e.generated, alone: e.alone, adopted: e.adopted, keepParent: e.keepParent,
	}
	if err := n.Succeed(ctx, n, &e.Entry); err != nil {
		return nil, err
	}
	e.handedOff.Store(true)
	return n, nil
}

// passable reports whether another goroutine can go on with an entry that was unlocked.
func (e *Entry) passable() bool { return e.Passable() && e.Pass < math.MaxInt32 }

// noWait is a context that has ended.
var noWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
