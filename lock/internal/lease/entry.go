package lease

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Entry is one contender's node in ZooKeeper with its lease, from its create on. Only its methods
// change it. They are safe for concurrent use.
type Entry struct {
	Path string // path of the node
	Terms

	keeper *Keeper
	owner  Owner

	Pass int32 // number of earlier local handoffs of the node, see Succeed

	// The keeper's mutex guards index and due.
	index int32         // index in the keeper's queue; -1: not in it
	due   time.Duration // monotonic time of the next tick

	mu sync.Mutex
	written
	state        State
	lapsed       bool                    // unlocked or detached when the lease may already have ended
	atRisk       bool                    // the hold is at risk, and the owner has got that Change
	shared       bool                    // the hold is a writer's that now only reads
	pinned       bool                    // the entry must not be handed off locally
	transacted   bool                    // a user's transaction was begun with the entry
	handles      int32                   // handles of the hold that are not unlocked yet
	ctx          context.Context         // see Context; before its first call, only the values count
	cancel       context.CancelCauseFunc // cancels ctx; nil: Context was not called yet
	suspectSince time.Duration           // see expire; monotonic time, 0: not in doubt
	granted      time.Duration           // monotonic time of the grant; 0: not granted
	rare         *rarities               // fields that few entries need; nil: none is set
	writing      *write                  // the write in flight or in doubt
	why          error                   // why the entry ended
	changed      chan struct{}           // closed at the next change; nil: no goroutine waits
}

// written is what an entry's node has, or gets next, by this client's writes. It goes on with the next
// entry of the node, see Succeed.
type written struct {
	version      int32         // data version after the last acknowledged write
	writesWanted uint32        // number of the last write that a caller waits for
	writesAcked  uint32        // number of the last acknowledged write
	recorded     bool          // the grant is in the node
	acquired     int64         // the grant in Unix ms of ensemble time; 0: not granted
	nextTTL      time.Duration // length of the lease that the next write gives
	lease        lease         // lease by the last acknowledged write
	session      int64         // session of the last acknowledged write
	zxid         int64         // zxid of the last acknowledged write; 0: unknown
	renewAt      time.Duration // monotonic time of the next renewal
}

// Created has the results of the transaction that created an entry's node, or attached to it.
type Created struct {
	Sent    clock.Instant // just before the transaction was sent
	Session int64         // session of the transaction; its server has seen the node
	Grant                 // the grant in the node's record
	Version int32         // data version of the node; 0: the transaction created the node
}

// Init sets up the entry of a node whose record was made with the terms t. c is the result of the
// transaction that wrote the record.
func (e *Entry) Init(k *Keeper, owner Owner, path string, t Terms, c Created) {
	e.Path, e.Terms, e.keeper, e.owner, e.index = path, t, k, owner, -1
	e.nextTTL, e.lease, e.session = t.TTL, lease{c.Sent, t.TTL}, c.Session
	e.renewAt = c.Sent.Mono + k.renewAfter(t.TTL)
	e.zxid, _ = k.Clock.Sampled() // the zxid of the create, or an earlier one
	e.acquired, e.recorded, e.shared, e.version = c.Acquired, c.Acquired != 0, c.Shared, c.Version
}

// change calls f with e.mu held. If f has changed the state, change then calls the owner's Changed,
// without e.mu.
func (e *Entry) change(f func()) {
	e.mu.Lock()
	before := e.state
	f()
	e.check()
	c := Change{From: before, To: e.state, Why: e.why}
	e.mu.Unlock()
	if c.From != c.To {
		e.owner.Changed(c)
	}
}

// transition is the only function that changes the state of an entry; e.mu is held, by change.
func (e *Entry) transition(to State, why error) {
	if e.state == Ended {
		return
	}
	if lost := (Change{From: e.state, To: to, Why: why}).Lost(); lost {
		why = e.owner.LossOf(why)
	}
	if e.state = to; to == Ended {
		e.why = why
		e.keeper.remove(e)
		e.withdrawWarnings() // before any goroutine learns of the end
		if e.cancel != nil {
			e.cancel(why)
		}
		for _, each := range e.shareGroup() {
			each.cancel(why)
		}
	}
	e.notify()
}

// Begin starts the renewals of an entry that has to wait. values is the context of the waiter, see
// [Entry.Values].
func (e *Entry) Begin(values context.Context) {
	now := e.keeper.Clock.Local()
	e.change(func() {
		if e.state <= Waiting {
			e.ctx = values
		}
		if e.state == Queued {
			e.transition(Waiting, nil)
			e.schedule(e.renewAt, now)
		}
	})
}

// Grant turns an entry into a hold with one handle. The hold's context gets the values of values.
// The grant is recorded at the monotonic time record, or with the next renewal if that comes first.
// If record is Never, only a renewal records the grant. If the entry has ended, Grant returns the
// reason.
func (e *Entry) Grant(values context.Context, now clock.Instant, record time.Duration) (err error) {
	acquired := e.keeper.Clock.Millis(now)
	e.change(func() {
		if err = e.why; e.state == Ended {
			return
		}
		e.handles = 1
		if e.acquired == 0 {
			e.acquired = acquired
		}
		e.ctx, e.granted = values, now.Mono
		e.transition(Held, nil)
		if record != Never && !e.recorded {
			e.writesWanted++
			e.schedule(record, now)
		} else {
			e.schedule(e.renewAt, now)
		}
	})
	return err
}

// Reenter adds a handle on the hold. If the hold is in doubt, a write confirms it first. If the
// hold has ended, Reenter returns the reason. It fails if ctx ends, and with ErrShared if toWrite
// is set and the hold only reads.
func (e *Entry) Reenter(ctx context.Context, toWrite bool) error {
	for {
		now := e.keeper.Clock.Local()
		e.mu.Lock()
		state, left, why := e.state, e.timeLeft(now), e.why
		denied := toWrite && e.shared
		if state == Held && left > 0 && !denied {
			e.handles++
		}
		e.mu.Unlock()
		switch {
		case state == Ended:
			return why
		case denied:
			return ErrShared
		case left > 0:
			return nil
		}
		if err := e.Refresh(ctx); err != nil {
			return err
		}
	}
}

// Unlock removes a handle. If that was the last one, the entry ends, and Unlock returns true: the
// caller must delete the node or hand the entry off. If the entry had already ended, Unlock returns
// false and the reason.
func (e *Entry) Unlock() (last bool, why error) {
	now := e.keeper.Clock.Local()
	e.change(func() {
		e.handles--
		e.notify()
		if why = e.why; e.state == Ended || e.handles > 0 {
			return
		}
		last, e.lapsed = true, e.timeLeft(now) <= 0
		e.transition(Ended, ErrUnlocked)
	})
	return last, why
}

// Withdraw ends an entry that no caller has got. It returns false if the entry had already ended.
func (e *Entry) Withdraw() (ended bool) {
	e.change(func() {
		ended = e.state != Ended
		e.transition(Ended, ErrWithdrawn)
	})
	return ended
}

// Detach ends the entry in this process, but leaves its node. It returns the record that the caller
// must write, with a lease of ttl and the incarnation, so that a client can attach. If the entry had
// already ended, Detach returns the reason.
func (e *Entry) Detach(ttl time.Duration, incarnation int32) (record []byte, why error) {
	now := e.keeper.Clock.Local()
	e.change(func() {
		if why = e.why; e.state == Ended {
			return
		}
		t := e.Terms
		t.Detached, t.Incarnation, t.Attachment = true, incarnation, ""
		r := e.keeper.Record(&t, ttl, e.grantForRecord(), now)
		record = r.Encode()
		e.lapsed = e.timeLeft(now) <= 0
		e.transition(Ended, ErrDetached)
	})
	return record, why
}

// Lose ends a hold as lost, for the reason why. It does nothing if the entry is not held.
func (e *Entry) Lose(why error) {
	e.change(func() {
		if e.state == Held {
			e.transition(Ended, why)
		}
	})
}

// Vanished ends the entry because its node has gone: with ErrGone if it is not held, with ErrExpired
// if its lease may have ended, and otherwise with ErrRemoved.
func (e *Entry) Vanished() {
	now := e.keeper.Clock.Local()
	e.change(func() {
		e.spoil()
		switch {
		case e.state < Held:
			e.transition(Ended, ErrGone)
		case e.timeLeft(now) <= 0:
			e.transition(Ended, ErrExpired)
		default:
			e.transition(Ended, ErrRemoved)
		}
	})
}

// Extend writes the entry with a lease of ttl, and waits for the acknowledgement. Later renewals
// have the same ttl. If other handles share the hold, Extend does not shorten the lease. It fails
// as Refresh does. Then the write may have been applied, and the earlier end of the old and the new
// lease counts.
func (e *Entry) Extend(ctx context.Context, ttl time.Duration) error {
	e.mu.Lock()
	if len(e.shareGroup()) > 0 && e.handles > 1 { // the other handles of the hold must not lose time
		ttl = max(ttl, e.nextTTL)
	}
	e.nextTTL = ttl
	e.mu.Unlock()
	return e.Refresh(ctx)
}

// Share makes a writer's hold only read from now on, records that in the entry, and waits for the
// acknowledgement. It fails with ErrReentered if there are other handles, because they may write.
// Otherwise it fails as Refresh does; then the next renewal records the change.
func (e *Entry) Share(ctx context.Context) error {
	e.mu.Lock()
	reentered := e.state != Ended && e.handles > 1
	e.shared = e.shared || !reentered
	e.mu.Unlock()
	if reentered {
		return ErrReentered
	}
	return e.Refresh(ctx)
}

// Refresh waits for the acknowledgement of a write of the entry that began after the call. If the
// entry has ended, it returns the reason. It also fails if ctx ends.
func (e *Entry) Refresh(ctx context.Context) error {
	now := e.keeper.Clock.Local()
	e.mu.Lock()
	e.writesWanted++
	target := e.writesWanted
	e.schedule(0, now)
	e.mu.Unlock()
	var why error
	err := e.await(ctx, func() bool {
		why = e.why
		return e.state == Ended || e.writesAcked >= target
	})
	return cmp.Or(why, err)
}

// await waits until done returns true, and fails if ctx ends first. It calls done at each change,
// with e.mu held.
func (e *Entry) await(ctx context.Context, done func() bool) error {
	for {
		var changed <-chan struct{}
		e.mu.Lock()
		if !done() {
			changed = e.nextChange()
		}
		e.mu.Unlock()
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return zkconn.ContextError(ctx)
		}
	}
}

// Watch returns a channel that is closed when the entry's state changes or a write of it is
// answered. If the entry has ended, it returns the reason.
func (e *Entry) Watch() (<-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == Ended {
		return nil, e.why
	}
	return e.nextChange(), nil
}

// nextChange returns a channel that is closed by the next notify; e.mu is held.
func (e *Entry) nextChange() <-chan struct{} {
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

// notify wakes the goroutines that wait for a change; e.mu is held.
func (e *Entry) notify() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// Context returns the context of the hold. It ends when the entry ends, with the reason as its
// cause. It carries the values given to Grant, and the values that with adds at the first call.
// Later calls return the same context and do not call with.
func (e *Entry) Context(with func(context.Context) context.Context) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancel == nil {
		e.ctx, e.cancel = context.WithCancelCause(with(context.WithoutCancel(e.ctx)))
		if e.state == Ended {
			e.cancel(e.why)
		}
	}
	return e.ctx
}
