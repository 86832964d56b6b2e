package lease

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Entry is one contender's node in ZooKeeper and the lease that it carries, from
// its create on. All changes of its life go through the methods here. They are
// safe for concurrent use.
type Entry struct {
	Path string // of the node
	Terms

	keeper *Keeper
	owner  Owner

	Pass int32 // how often the node was passed on in this process before, see Succeed

	// Owned by the keeper.
	index int32         // in the keeper's queue; -1: not in it
	due   time.Duration // monotonic time of the next tick

	mu           sync.Mutex
	state        State
	recorded     bool                    // the grant stands in the node
	lapsed       bool                    // unlocked when the lease may have run out already
	atRisk       bool                    // it was told that the hold is
	shared       bool                    // a writer's: it only reads from now on
	pinned       bool                    // it is not to be passed on
	transacted   bool                    // a user's transaction was begun in its name
	handles      int32                   // holds that were given out on this entry and not yet unlocked
	version      int32                   // of the data that the last acknowledged write left
	writesWanted uint32                  // writes that a caller waits for
	writesAcked  uint32                  // those of them that were acknowledged
	ctx          context.Context         // of the hold, once a caller has asked for it; before, the one whose values it is to keep
	cancel       context.CancelCauseFunc // of the hold's context; nil: no caller has asked for it
	nextTTL      time.Duration           // that the next write carries
	lease        lease                   // of the last acknowledged write
	session      int64                   // that it was made in
	zxid         int64                   // of its transaction; 0: not known
	renewAt      time.Duration           // monotonic time
	suspectSince time.Duration           // monotonic time since when the machine may have slept through the end of the lease; 0: not
	granted      time.Duration           // monotonic time; 0: not granted
	acquired     int64                   // Unix ms of ensemble time; 0: not granted
	rare         *rarities               // nil: it has none of them
	writing      *write                  // on its way, or of unknown outcome
	why          error                   // ended: the reason
	changed      chan struct{}           // closed at the next change; nil if no goroutine waits
}

// Created is what is known of an entry from the transaction that made its node, or
// attached to it.
type Created struct {
	Sent    clock.Instant // before the write was handed over
	Session int64         // in which it was made, so that this session's server has seen it
	Grant                 // that its record tells already
	Version int32         // of its data; not 0 where it was attached to
}

// Init sets up the entry of a node that was created with a record by these terms.
func (e *Entry) Init(k *Keeper, owner Owner, path string, t Terms, c Created) {
	e.Path, e.Terms, e.keeper, e.owner, e.index = path, t, k, owner, -1
	e.nextTTL, e.lease, e.session = t.TTL, lease{c.Sent, t.TTL}, c.Session
	e.renewAt = c.Sent.Mono + k.renewAfter(t.TTL)
	e.zxid, _ = k.clock.Sampled() // by the reply to its create, or an earlier one
	e.acquired, e.recorded, e.shared, e.version = c.Acquired, c.Acquired != 0, c.Shared, c.Version
}

// InitEnded sets up an entry that has ended, for a node that is to be deleted
// whatever its version, or for none at all.
func (e *Entry) InitEnded(owner Owner, path string, t Terms, why error) {
	e.Path, e.Terms, e.owner, e.index = path, t, owner, -1
	e.state, e.why, e.version, e.ctx = Ended, why, -1, context.Background()
}

// change makes a change, and tells of it once the entry is not locked any more.
func (e *Entry) change(f func()) {
	e.mu.Lock()
	before := e.state
	f()
	c := Change{From: before, To: e.state, Why: e.why}
	e.mu.Unlock()
	if c.From != c.To {
		e.owner.Changed(c)
	}
}

// transition is the one place where the life of an entry changes; e.mu is held, by
// change.
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
		e.withdrawWarnings() // before the end can be seen
		if e.cancel != nil {
			e.cancel(why)
		}
		for _, each := range e.together() {
			each.cancel(why)
		}
	}
	e.notify()
}

// Begin has an entry that has to wait renewed from now on. The values are those of
// the context with which its present waiter asked for the lock.
func (e *Entry) Begin(values context.Context) {
	now := e.keeper.clock.Local()
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

// Grant makes a hold of a waiting entry, whose context keeps the values of
// values. The grant is written at the monotonic time record, or with the next renewal
// if that comes before. An entry that has ended returns why.
func (e *Entry) Grant(values context.Context, now clock.Instant, record time.Duration) (err error) {
	acquired := e.keeper.clock.Millis(now)
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

// Reenter gives out one more handle on the hold. One that is in doubt is confirmed by
// a write before. It fails with why the hold has ended, or as ctx does; and with
// ErrShared if the handle is to write and the hold may not.
func (e *Entry) Reenter(ctx context.Context, toWrite bool) error {
	for {
		now := e.keeper.clock.Local()
		e.mu.Lock()
		state, left, why := e.state, e.left(now), e.why
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

// Unlock takes a handle back. It reports whether that was the last one, so that
// the node is to be deleted now, and why the hold had ended before, if it had.
func (e *Entry) Unlock() (last bool, why error) {
	now := e.keeper.clock.Local()
	e.change(func() {
		e.handles--
		if why = e.why; e.state == Ended || e.handles > 0 {
			return
		}
		last, e.lapsed = true, e.left(now) <= 0
		e.transition(Ended, ErrUnlocked)
	})
	return last, why
}

// Withdraw ends an entry that no caller has got yet. It reports false if the entry
// had ended before.
func (e *Entry) Withdraw() (ended bool) {
	e.change(func() {
		ended = e.state != Ended
		e.transition(Ended, ErrWithdrawn)
	})
	return ended
}

// Detach ends the entry in this process alone. It returns the record that is to stand in
// the node from then on, for the client that attaches to it: with a lease of ttl, and as
// that incarnation. Or it returns why the entry had ended before.
func (e *Entry) Detach(ttl time.Duration, incarnation int32) (record []byte, why error) {
	now := e.keeper.clock.Local()
	e.change(func() {
		if why = e.why; e.state == Ended {
			return
		}
		t := e.Terms
		t.Detached, t.Incarnation, t.Attachment = true, incarnation, ""
		record = e.keeper.Record(&t, ttl, e.tells(), now)
		e.lapsed = e.left(now) <= 0
		e.transition(Ended, ErrDetached)
	})
	return record, why
}

// Lose ends a hold before its holder did.
func (e *Entry) Lose(why error) {
	e.change(func() {
		if e.state == Held {
			e.transition(Ended, why)
		}
	})
}

// Vanished takes the news that the node is not there.
func (e *Entry) Vanished() {
	now := e.keeper.clock.Local()
	e.change(func() {
		e.spoil()
		switch {
		case e.state < Held:
			e.transition(Ended, ErrGone)
		case e.left(now) <= 0:
			e.transition(Ended, ErrExpired)
		default:
			e.transition(Ended, ErrRemoved)
		}
	})
}

// Extend has the entry written with a lease of ttl, and later renewals too, and waits
// until that was acknowledged. It fails as Refresh does; then it may have been applied,
// and of the two ends of the lease the earlier one counts.
func (e *Entry) Extend(ctx context.Context, ttl time.Duration) error {
	e.mu.Lock()
	if len(e.together()) > 0 && e.handles > 1 { // other handles have the hold too, and none of them is to lose by it
		ttl = max(ttl, e.nextTTL)
	}
	e.nextTTL = ttl
	e.mu.Unlock()
	return e.Refresh(ctx)
}

// Share has a writer's hold only read from now on, tells so in the entry, and waits until
// that was acknowledged. It fails with ErrReentered if there are other handles, which may
// write, and else as Refresh does; then the next renewal tells.
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

// Refresh writes the entry and waits for the acknowledgement of a write that
// began after the call. It fails with why the entry ended, or as ctx does.
func (e *Entry) Refresh(ctx context.Context) error {
	now := e.keeper.clock.Local()
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

// await waits until done reports so, or fails as ctx does. It is asked at each change, with
// e.mu held.
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

// Watch returns a channel that is closed at the next change of the entry, or an error,
// why it has ended.
func (e *Entry) Watch() (<-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == Ended {
		return nil, e.why
	}
	return e.nextChange(), nil
}

// nextChange returns a channel that is closed at the next change; e.mu is held.
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

// Pause waits for a while, or until the entry or ctx ends.
func (e *Entry) Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		changed, err := e.Watch()
		if err != nil {
			return err
		}
		select {
		case <-timer.C:
			return nil
		case <-changed:
		case <-ctx.Done():
			return zkconn.ContextError(ctx)
		}
	}
}

// Context returns the context of the hold: it ends with the entry, and carries the
// values that the grant was given, and what with adds to them when it is first asked
// for.
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
