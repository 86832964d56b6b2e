package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

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
// unlocked, the transaction is not sent again, and fails with ErrUnlocked. See [Entry.UnlockHandle].
func (e *Entry) Txn(ctx context.Context, unlocked *atomic.Bool, ops []any) error {
	failed := 0
	return e.keeper.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		if err := e.awaitSession(ctx, unlocked); err != nil {
			return err
		}
		w, err := e.beginTxn(ctx, unlocked, ops)
		if err != nil {
			return zkconn.Final(err)
		}
		f := e.keeper.flight(w)
		f.txn = true
		err = f.attempt(ctx)
		w.drop()
		switch why := e.Err(); {
		case w.raised == raisedByTxn:
			return nil
		case w.inDoubt():
		case w.refused != nil:
			return zkconn.Final(w.refused)
		case why != nil:
			return zkconn.Final(why)
		default:
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

// awaitSession waits until there is a session, the entry has ended or the handle was unlocked: a write
// that waits for a session would hold up an Unlock.
func (e *Entry) awaitSession(ctx context.Context, unlocked *atomic.Bool) error {
	waits, stop := context.WithCancel(ctx)
	defer stop()
	var ended atomic.Bool
	go func() {
		ended.Store(e.await(waits, func() bool { return e.state == Ended || unlocked.Load() }) == nil)
		stop()
	}()
	if err := e.keeper.Conn.Ready(waits); !ended.Load() {
		return err
	}
	return nil // beginTxn returns the reason
}

// beginTxn waits until no write of the entry is in flight or in doubt, and begins a write with the
// operations. It fails if ctx ends, the entry has ended, or the handle was unlocked.
func (e *Entry) beginTxn(ctx context.Context, unlocked *atomic.Bool, ops []any) (w *write, err error) {
	for {
		now := e.keeper.Clock.Local()
		e.change(func() {
			switch e.expire(now); {
			case e.state == Ended:
				err = e.why
				return
			case unlocked.Load(): // checked under the entry's lock: a later UnlockHandle finds this write
				err = ErrUnlocked
				return
			case e.writing == nil:
				w = e.newWrite(now)
				w.with, w.by = ops, unlocked
				e.writing, e.transacted = w, true
			default:
				e.renewAt = min(e.renewAt, now.Mono) // resolve a write in doubt at once
			}
			e.schedule(e.renewAt, now)
		})
		if err == nil && w == nil {
			err = e.await(ctx, func() bool { return e.writing == nil || e.state == Ended || unlocked.Load() })
		}
		if err != nil || w != nil {
			return w, err
		}
	}
}

// UnlockHandle removes a handle as Unlock does, and deals with the handle's transaction. The caller must
// set unlocked before. Once UnlockHandle has returned nil, and for the last handle the node is deleted,
// no transaction of the handle can be applied any more.
//
//   - If other handles remain, UnlockHandle first waits for the outcome of a transaction in flight or in
//     doubt. If the outcome is not known at the time end, UnlockHandle fails with ErrInDoubt, but still
//     removes the handle.
//   - If the handle is the last one, the entry ends at once. Then UnlockHandle only waits for a write
//     that is in flight and not in doubt: the deletion of the node settles a write in doubt. If the
//     write in flight has no reply at the time end, the entry is not handed off locally.
func (e *Entry) UnlockHandle(unlocked *atomic.Bool, end time.Time) (last bool, why error) {
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

// resolveTxn waits until the keeper has found out the outcome of a transaction in doubt. The keeper
// writes the same bytes on the same version, without the operations. Either the bytes are already
// there, or the transaction cannot be applied any more. resolveTxn fails if ctx or the entry ends
// first.
func (e *Entry) resolveTxn(ctx context.Context, w *write) (applied bool, why error) {
	now := e.keeper.Clock.Local()
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
