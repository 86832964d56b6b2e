package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// RWMutex is a lock with many readers, or one writer, at a time. Like [Mutex] it has a name and
// settings, and no state.
//
// It is fair: first come, first served. A waiting writer holds back later readers, so that a stream
// of readers starves no writer. A waiter waits for one earlier contender at a time: a reader for
// the nearest writer ahead, a writer for the nearest contender ahead. No contender waits for a
// later one, so there is no deadlock.
//
//	                          hold for reading                 hold for writing
//	session lost, expired     goes on                          goes on
//	lease not renewed         ends, and a writer may enter     ends, and the next waiters may
//	                          after the grace                  enter after the grace
//	Client.Close              ends; the entry is deleted       the same
//	context ends, in RLock    the entry is withdrawn           the same; readers behind it enter if
//	or Lock                                                    no other writer is in the way
//	Client.Revoke             each reader's Revoked receives   Revoked receives the request; your
//	                          a request; your program decides  program decides
//	RWMutex.Downgrade         nothing changes                  readers enter beside it; it keeps its
//	                                                           place, and its token
//	Hold.Detach               goes on where a client attaches, the same
//	                          unless other readers of this
//	                          client share the entry
//
// A waiter keeps its place when a session ends, as with a [Mutex], and withdraws when the
// client closes.
//
// Fencing tokens: a writer's token is higher than those of all earlier holders. A reader's token is
// higher than those of all earlier writers. Readers that hold the lock at the same time may have
// entered in another order than their tokens.
//
// An RWMutex has the wire format of Curator's InterProcessReadWriteLock, so an RWMutex and
// Curator's lock can share a path. The doc of package znode has the limits.
type RWMutex struct{ named }

// RWMutex returns the read/write lock of that name, as [Client.Mutex] does.
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	return &RWMutex{named{c.recipe(znode.RW, name, opts)}}
}

// RLock waits for its turn to read, and returns the hold. It fails as [Mutex.Lock] does. With the
// context of a hold for reading or writing it re-enters that hold.
func (m *RWMutex) RLock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Shared, acquire)
}

// TryRLock returns the hold for reading if no writer holds the lock or waits ahead. Otherwise it
// returns a [HeldError], as [Mutex.TryLock] does.
func (m *RWMutex) TryRLock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Shared, try)
}

// Lock waits for its turn to write, and returns the hold. It fails as [Mutex.Lock] does. With the
// context of a hold for writing it re-enters that hold.
//
// If ctx comes from a hold for reading, Lock fails with [ErrUpgrade] at once: it would wait for its
// own reader, and two readers that want to write would wait for each other. If the work may have to
// write after reading, take the lock for writing from the start. Or unlock, take the lock for
// writing, and read again, because another client may have written in between:
//
//	read.Unlock()
//	write, err := catalog.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer write.Unlock()
//	// Read again, and only then write.
func (m *RWMutex) Lock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Writer, acquire)
}

// TryLock returns the hold for writing if no other contender is in the way. Otherwise it returns
// a [HeldError], as [Mutex.TryLock] does. With the context of a hold for reading it fails with
// [ErrUpgrade].
func (m *RWMutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Writer, try)
}

// RDo runs f while it holds the lock for reading, as [Mutex.Do] does.
func (m *RWMutex) RDo(ctx context.Context, f func(context.Context) error) error {
	return m.r.do(ctx, znode.Shared, f)
}

// Do runs f while it holds the lock for writing, as [Mutex.Do] does.
func (m *RWMutex) Do(ctx context.Context, f func(context.Context) error) error {
	return m.r.do(ctx, znode.Writer, f)
}

// TryRDo runs f while it holds the lock for reading, or skips it, as [Mutex.TryDo] does.
func (m *RWMutex) TryRDo(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	return m.r.tryDo(ctx, znode.Shared, f)
}

// TryDo runs f while it holds the lock for writing, or skips it, as [Mutex.TryDo] does.
func (m *RWMutex) TryDo(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	return m.r.tryDo(ctx, znode.Writer, f)
}

// Reads reports whether the hold of this lock is for reading: [RWMutex.RLock] acquired it, or
// [RWMutex.Downgrade] made it one. An RLock that re-enters a hold for writing returns a hold for
// writing. Detach and Attach do not change the result. It is false for a hold of another lock.
func (m *RWMutex) Reads(h *Hold) bool { return m.owns(h) && h.e.Reads() }

// owns reports whether the hold is of this lock, taken with the same client.
func (m *RWMutex) owns(h *Hold) bool {
	return h != nil && h.client == m.r.client && h.Name() == m.r.name && h.e.Kind == znode.RW
}

// Downgrade turns a hold of this lock for writing into a hold for reading, without a gap: no client
// can write in between. From the call on the holder must not write any more, whatever Downgrade
// returns. Readers right behind the hold enter, and so do later readers unless a writer waits
// before them. The hold keeps its context and token, and its lease is renewed. There is no way
// back, see [RWMutex.Lock].
//
// Downgrade waits until ZooKeeper has acknowledged the write. If ctx had ended before the call,
// Downgrade returns the context's error, and nothing changes. If ctx ends while Downgrade waits,
// the hold is already for reading, and the next renewal lets readers in. A hold for reading stays
// as it is. For a hold of another lock or client, or with other handles that may be writing, Downgrade
// fails with [ErrInvalid]. If the hold has ended, Downgrade returns the reason.
func (m *RWMutex) Downgrade(ctx context.Context, h *Hold) error {
	if err := m.r.validate(); err != nil {
		return err
	}
	if !m.owns(h) {
		return invalid("hold", "to downgrade", "must be of this lock %q, and taken with the same client", m.r.name)
	}
	switch err := h.check(ctx, "downgrade"); {
	case err != nil:
		return err
	case h.e.Name().Role == znode.Shared:
		return nil
	}
	err := h.e.Share(ctx)
	if !errors.Is(err, lease.ErrReentered) {
		h.e.Unplace() // goroutines that wait to write get another entry
	}
	if errors.Is(err, lease.ErrReentered) {
		return h.cannot("has other handles, and cannot be downgraded: first unlock those taken with its context")
	}
	if err != nil {
		return zkconn.Reveal(fmt.Errorf("downgrade %q: %w", h.Name(), err))
	}
	return nil
}

// tenancy is a reader's hold of an entry that other readers of the client may share, see
// [WithLocalWindow]. It ends with the entry, or when all its own handles are unlocked, whichever is
// first.
type tenancy struct {
	client *Client
	e      *queue.Entry
	pass   int32
	since  time.Duration // monotonic time of the grant
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   atomic.Bool  // the end was reported
	risk   atomic.Int64 // lease.Change.Leased of the last reported risk

	mu       sync.Mutex
	handles  int
	entering int // handles that the entry may not have counted yet
}

// tenant is the key under which a hold's context carries its tenancy.
type tenant reentry

// inShareGroup reports whether several tenancies can hold a granted entry: those of readers can.
func inShareGroup(e *queue.Entry) bool {
	return e.Kind == znode.RW && e.Placed() && e.Name().Role == znode.Shared
}

// holdOf returns a hold of an entry that was just taken. values is the context of the request; the
// hold's context has its values. If several readers can share the entry, holdOf also reports the
// grant to the observers.
func (c *Client) holdOf(e *queue.Entry, values context.Context) *Hold {
	h := &Hold{hold{client: c, e: e}}
	if !inShareGroup(e) {
		return h
	}
	t := &tenancy{client: c, e: e, pass: e.NextHolder(), since: c.clock.Mono(), handles: 1}
	h.t = t
	t.ctx, t.cancel = context.WithCancelCause(h.carriedBy(context.WithoutCancel(values)))
	t.tell(lease.Change{To: lease.Held}) // before its end can be reported
	e.OnEnd(t, func(why error) { t.cancel(t.own(why)) })
	if change, atRisk := e.Risk(); atRisk { // the risk was reported before this hold received reports
		t.tell(change)
	}
	if t.ctx.Err() != nil {
		t.ended()
	}
	return h
}

// own returns why an entry was lost with the token of this tenancy instead of the entry's.
func (t *tenancy) own(why error) error {
	lost, ok := why.(*LostError)
	if t == nil || !ok {
		return why
	}
	own := *lost
	own.Token.parts.Pass = t.pass
	return &own
}

// enter counts one more handle. If the tenancy has ended, enter counts nothing and returns false.
func (t *tenancy) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handles == 0 {
		return false
	}
	t.handles++
	t.entering++
	return true
}

// entered ends the uncertainty that enter began: the entry has counted the new handle, or will not.
func (t *tenancy) entered() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entering--
}

// alone pins the entry, and reports whether no other tenancy shares it. If so, no other tenancy can
// share the entry later either. While a handle of the tenancy is made or unlocked, alone may return
// false although no other tenancy shares the entry.
func (t *tenancy) alone() bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.e.PinAlone(int32(t.handles - t.entering))
}

// leave counts one handle less, and ends the tenancy with the last one.
func (t *tenancy) leave() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.handles--
	last := t.handles == 0
	t.mu.Unlock()
	if last {
		t.e.OnEnd(t, nil)
		t.cancel(ErrUnlocked)
		t.ended()
	}
}

// ended reports the end of a tenancy whose context has ended.
func (t *tenancy) ended() { t.tell(lease.Change{From: lease.Held, To: lease.Ended}) }

// tell reports a change of the tenancy to the observers. It reports the end once, and each risk once.
func (t *tenancy) tell(change lease.Change) {
	if change.AtRisk() && t.risk.Swap(int64(change.Leased)) == int64(change.Leased) {
		return
	}
	if change.To == lease.Ended {
		if t.over.Swap(true) {
			return
		}
		if change.Why = context.Cause(t.ctx); change.Lost() {
			t.client.lost.Add(1)
		}
	}
	if len(t.client.cfg.observers) > 0 {
		token := tokenOf(t.e)
		token.parts.Pass = t.pass
		t.client.tellOf(t.e, change, token, t.since, t.ctx)
	}
}
