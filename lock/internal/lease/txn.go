package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// ErrInDoubt: the transaction may have been applied. As long as the entry exists, it may also be
// applied later.
var ErrInDoubt = errors.New("transaction may have been applied")

// txnAttempts is the largest number of attempts of a transaction under which the connection fails.
// The transaction itself may be the cause: a server's size limit may be lower than 1 MB.
const txnAttempts = 5

// raisedByTxn is the increase of the node's version by a transaction, which writes the entry
// before and after its operations. A renewal increases the version by one. So if a node has the
// bytes of a write in doubt, the version shows whether the operations were applied.
const raisedByTxn = 2

// Txn applies the operations if the entry is still as its owner left it. A transaction
// is also a write of the entry: it takes its turn with renewals, and renews the lease.
//
// Txn returns
//
//   - the reason why the entry has ended, if it has;
//   - the error of an operation that the server refused, see [zkconn.RefusedOp];
//   - the error of ctx or of the connection;
//   - ErrInDoubt if the reply was lost, and ctx or the entry ended before the outcome was known.
//
// After any error but ErrInDoubt nothing was applied.
//
// A transaction belongs to a handle of the entry. Once the handle was unlocked, which sets
// unlocked, the transaction is not sent again, and fails with ErrUnlocked. See [Entry.Release].
func (e *Entry) Txn(ctx context.Context, unlocked *atomic.Bool, ops []any) error {
	failed := 0
	return e.keeper.conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		w, version, err := e.beginTxn(ctx, unlocked)
		if err != nil {
			return zkconn.Final(err)
		}
		doubt, err := e.attemptTxn(ctx, w, version, ops)
		if !doubt {
			return err
		}
		applied, why := e.resolveTxn(ctx, w)
		switch failed++; {
		case why != nil:
			return zkconn.Final(fmt.Errorf("%w: %w: %w", ErrInDoubt, why, err))
		case applied:
			return nil
		case failed == txnAttempts:
			return zkconn.Final(fmt.Errorf("%w: the connection failed under the transaction %d times, and it was not applied: %w", zkconn.ErrUnavailable, failed, err))
		}
		return err
	})
}

// beginTxn waits until no write of the entry is in flight or in doubt, and begins a write on the
// version that it returns. It fails if ctx ends, the entry has ended, or the handle was unlocked.
func (e *Entry) beginTxn(ctx context.Context, unlocked *atomic.Bool) (w *write, version int32, err error) {
	for {
		now := e.keeper.clock.Local()
		e.change(func() {
			switch e.expire(now); {
			case e.state == Ended:
				err = e.why
				return
			case unlocked.Load(): // checked under the entry's lock: a later Release finds this write
				err = ErrUnlocked
				return
			case e.writing == nil:
				w, version = e.txnWrite(now), e.version
				e.writing, w.by = w, unlocked
			default:
				e.renewAt = min(e.renewAt, now.Mono) // resolve a write in doubt at once
			}
			e.schedule(e.renewAt, now)
		})
		if err == nil && w == nil {
			err = e.await(ctx, func() bool { return e.writing == nil || e.state == Ended || unlocked.Load() })
		}
		if err != nil || w != nil {
			return w, version, err
		}
	}
}

// Release removes a handle as Unlock does. The caller must set unlocked before. Once Release has
// returned nil, and for the last handle the node is deleted, no transaction of the handle can be
// applied any more.
//
//   - If other handles remain, Release first waits for the outcome of a transaction in flight or in
//     doubt. If the outcome is not known at the time end, Release fails with ErrInDoubt, but still
//     removes the handle.
//   - If the handle is the last one, the entry ends at once. Then Release only waits for a write
//     that is in flight and not in doubt: the deletion of the node settles a write in doubt. If the
//     write in flight has no reply at the time end, the entry is not handed off locally.
func (e *Entry) Release(unlocked *atomic.Bool, end time.Time) (last bool, why error) {
	if !locked(e, func() bool { return e.transacted }) {
		return e.Unlock()
	}
	inDoubt := e.awaitTxn(unlocked, end, func(*write) bool { return e.state != Ended && e.handles > 1 })
	if last, why = e.Unlock(); !last {
		return false, cmp.Or(why, inDoubt)
	}
	if e.awaitTxn(unlocked, end, func(w *write) bool { return w.flying && !w.doubt }) != nil {
		e.Pin()
	}
	return true, why
}

// awaitTxn waits until pending is false for the transaction of the handle, or the handle has none.
// At the time end it fails with ErrInDoubt. It calls pending with e.mu held.
func (e *Entry) awaitTxn(unlocked *atomic.Bool, end time.Time, pending func(*write) bool) error {
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	if e.await(ctx, func() bool { return e.writing == nil || e.writing.by != unlocked || !pending(e.writing) }) != nil {
		return ErrInDoubt
	}
	return nil
}

// txnWrite returns the write of the entry that is part of a transaction; e.mu is held.
func (e *Entry) txnWrite(now clock.Instant) *write {
	e.transacted = true
	w := &write{ttl: e.nextTTL, acquired: e.acquired, wanted: e.writesWanted, first: now, flying: true}
	w.data = e.keeper.Record(&e.Terms, w.ttl, e.grantForRecord(), now)
	return w
}

// attemptTxn sends the transaction once, and reports whether the outcome is in doubt. If the
// outcome is known, the entry's write is acknowledged or dropped. The error is for Retry.
func (e *Entry) attemptTxn(ctx context.Context, w *write, version int32, ops []any) (doubt bool, err error) {
	k, last := e.keeper, len(ops)+1
	all := append(make([]any, 0, last+1), &zk.SetDataRequest{Path: e.Path, Data: w.data, Version: version})
	all = append(all, ops...)
	all = append(all, &zk.SetDataRequest{Path: e.Path, Data: w.data, Version: version + raisedByTxn - 1})

	session, sent := k.conn.Session(), k.clock.Local()
	silent := time.AfterFunc(max(time.Second, w.ttl/3), k.conn.NoteOutage)
	replies, err := k.conn.Multi(ctx, all...)
	if !silent.Stop() {
		k.conn.NoteOutage() // the outage has lasted until now
	}
	received := k.clock.Local()
	switch zkconn.OutcomeOf(err) {
	case zkconn.Applied:
		stat := replies[last].Stat
		e.acknowledge(w, sent, session, stat.Version, stat.Mzxid, k.renewAfter(w.ttl), received)
		k.observe(stat, sent, received)
		k.renewals.Add(1)
		return false, nil
	case zkconn.Ambiguous:
		return true, err
	}
	e.drop(w, received)
	op, cause := zkconn.RefusedOp(err)
	switch {
	case op > 0 && op < last:
		return false, zkconn.Final(zkconn.RefusedAt(op-1, cause))
	case op < 0:
		return false, err
	case errors.Is(cause, zk.ErrNoNode):
		e.Vanished()
	case errors.Is(cause, zk.ErrBadVersion):
		if _, _, err := e.resolve(ctx, nil); err != nil { // no write of this client is in doubt
			e.writtenBy(nil)
		}
	default:
		return false, zkconn.Final(fmt.Errorf("write %s: %w", e.Path, cause))
	}
	return false, zkconn.Final(e.Err())
}

// drop ends a write that was not applied.
func (e *Entry) drop(w *write, now clock.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing == w {
		e.writing = nil
		e.notify()
		e.scheduleNext(now)
	}
}

// resolveTxn waits until the keeper has found out the outcome of a transaction in doubt. The keeper
// writes the same bytes on the same version, without the operations. Either the bytes are already
// there, or the transaction cannot be applied any more. resolveTxn fails if ctx or the entry ends
// first.
func (e *Entry) resolveTxn(ctx context.Context, w *write) (applied bool, why error) {
	now := e.keeper.clock.Local()
	e.mu.Lock()
	w.flying, w.doubt = false, true
	if w.wanted == e.writesWanted { // it must be sent again
		e.writesWanted++
		w.wanted++
	}
	e.schedule(0, now)
	e.notify()
	e.mu.Unlock()
	err := e.await(ctx, func() bool {
		applied, why = w.raised == raisedByTxn, nil
		if w.raised == 0 {
			why = e.why
		}
		return w.raised != 0 || e.state == Ended
	})
	return applied, cmp.Or(why, err)
}
