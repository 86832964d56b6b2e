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

// ErrInDoubt says that a transaction may have been applied, or may be for as long as the
// entry is there.
var ErrInDoubt = errors.New("transaction may have been applied")

// RefusedError says which of a transaction's operations the server refused, so that none
// was applied.
type RefusedError struct {
	Op  int // its place
	Err error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("operation %d: %v", e.Op, e.Err) }

// Unwrap returns the server's answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// Limits of the attempts of a transaction. If the connection has failed under each of
// them, the transaction may be what breaks it: a server can be set to take less than 1 MB.
var (
	txnBackoff  = zkconn.Backoff{First: 20 * time.Millisecond, Most: time.Second}
	txnAttempts = 5
)

// raisedByTxn is by how much a transaction takes the entry's version up: it writes the
// entry before and after its operations. Any other write does so by one. So where the
// bytes of a write of unknown outcome stand, the version tells whether the operations
// were applied.
const raisedByTxn = 2

// Txn applies the operations if the entry is still there, as its owner left it. An operation
// that is an [Entry] demands the same of that one, which must not be handed off. That is
// a write of the entry, which takes its turn with renewals, and is one: it renews the
// lease, but that of a fixed lease keeps its end.
//
// It fails with why the entry has ended, with a RefusedError, as ctx does, or as the
// connection does; then nothing was applied. Only with ErrInDoubt it may have been: when
// the reply was lost, and ctx or the entry ended before it was known what stands there.
//
// It belongs to a handle of the entry, and is told by unlocked when that is taken back: from
// then on it is not sent again, and fails with ErrUnlocked. See [Entry.Release].
func (e *Entry) Txn(ctx context.Context, unlocked *atomic.Bool, ops []any) error {
	failed := 0
	return e.keeper.conn.Retry(ctx, txnBackoff, func() error {
		w, version, err := e.beginTxn(ctx, unlocked)
		if err != nil {
			return zkconn.Final(err)
		}
		doubt, err := e.attemptTxn(ctx, w, version, ops)
		if !doubt {
			return err
		}
		applied, why := e.settle(ctx, w)
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

// beginTxn waits until no write of the entry is on its way or of unknown outcome, and
// begins one, to be made on the version that it returns.
func (e *Entry) beginTxn(ctx context.Context, unlocked *atomic.Bool) (w *write, version int32, err error) {
	for {
		now := e.keeper.clock.Local()
		e.change(func() {
			switch e.expire(now); {
			case e.state == Ended:
				err = e.why
				return
			case unlocked.Load(): // before Release looks for our write, or else it finds that
				err = ErrUnlocked
				return
			case e.writing == nil:
				w, version = e.txnWrite(now), e.version
				e.writing, w.by = w, unlocked
			default:
				e.renewAt = min(e.renewAt, now.Mono) // what is in doubt is settled at once
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

// Release takes a handle back as Unlock does, once unlocked says so. When it has returned nil,
// no transaction of the handle is applied any more, also if the entry lives on: before the
// entry has another handle less, one that is on its way or in doubt is settled. If the handle
// is the last one, the entry ends at once; then only what is on its way is waited for, since
// what is in doubt is settled by the deletion. If that takes too long it fails with
// ErrInDoubt, and the handle is taken back all the same.
func (e *Entry) Release(unlocked *atomic.Bool, within time.Duration) (last bool, why error) {
	if !locked(e, func() bool { return e.transacted }) {
		return e.Unlock()
	}
	inDoubt := e.awaitTxn(unlocked, within, func(*write) bool { return e.state != Ended && e.handles > 1 })
	if last, why = e.Unlock(); !last {
		return false, cmp.Or(why, inDoubt)
	}
	if e.awaitTxn(unlocked, within, func(w *write) bool { return w.flying }) != nil {
		e.Pin()
	}
	return true, why
}

// awaitTxn waits until no transaction of the handle is pending, or fails with ErrInDoubt. What
// that is, is asked with e.mu held.
func (e *Entry) awaitTxn(unlocked *atomic.Bool, within time.Duration, pending func(*write) bool) error {
	limit := zkconn.NewTimeLimit(within)
	defer limit.Release()
	if e.await(limit, func() bool { return e.writing == nil || e.writing.by != unlocked || !pending(e.writing) }) != nil {
		return ErrInDoubt
	}
	return nil
}

// txnWrite is the write of the entry that a transaction makes; e.mu is held.
func (e *Entry) txnWrite(now clock.Instant) *write {
	e.transacted = true
	w := &write{ttl: e.nextTTL, acquired: e.acquired, wanted: e.writesWanted, first: now, flying: true}
	if e.Fixed && e.writesWanted == e.writesAcked {
		w.keepsEnd = true
		left := e.lease.sent.Mono + e.lease.ttl - now.Mono
		w.ttl = (left + time.Millisecond - 1).Truncate(time.Millisecond) // what a record can tell
		w.first.Mono -= w.ttl - left
		w.first.Wall -= w.ttl - left
	}
	w.data = e.keeper.Record(&e.Terms, w.ttl, e.tells(), now)
	return w
}

// attemptTxn sends the transaction once, and reports whether the outcome is in doubt;
// otherwise the write is over. The error is for Retry.
func (e *Entry) attemptTxn(ctx context.Context, w *write, version int32, ops []any) (doubt bool, err error) {
	k, last := e.keeper, len(ops)+1
	all := append(make([]any, 0, last+1), &zk.SetDataRequest{Path: e.Path, Data: w.data, Version: version})
	for _, op := range ops {
		if other, depends := op.(*Entry); depends {
			if err := other.Err(); err != nil {
				e.drop(w, k.clock.Local())
				return false, zkconn.Final(err)
			}
			probable, _, _ := other.LastWrite() // any other version may be the write by which it was left or lost
			op = &zk.CheckVersionRequest{Path: other.Path, Version: probable}
		}
		all = append(all, op)
	}
	all = append(all, &zk.SetDataRequest{Path: e.Path, Data: w.data, Version: version + raisedByTxn - 1})

	session, sent := k.conn.Session(), k.clock.Local()
	silent := time.AfterFunc(max(time.Second, w.ttl/3), k.conn.NoteOutage)
	replies, err := k.conn.Multi(ctx, nil, all...)
	if !silent.Stop() {
		k.conn.NoteOutage() // it has lasted until now
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
		if _, depends := ops[op-1].(*Entry); depends && errors.Is(cause, zk.ErrBadVersion) {
			return false, zkconn.Later(err) // a renewal came between, or the other has ended
		}
		return false, zkconn.Final(&RefusedError{op - 1, cause})
	case op < 0:
		return false, err
	case errors.Is(cause, zk.ErrNoNode):
		e.Vanished()
	case errors.Is(cause, zk.ErrBadVersion):
		e.taken(ctx)
	default:
		return false, zkconn.Final(fmt.Errorf("write %s: %w", e.Path, cause))
	}
	return false, zkconn.Final(e.Err())
}

// taken takes the news that the node has another version than the one that is known, with
// no write of ours in doubt. It reads the node to find out which write that was.
func (e *Entry) taken(ctx context.Context) {
	n, err := e.keeper.conn.GetSynced(ctx, e.Path)
	if errors.Is(err, zk.ErrNoNode) {
		e.Vanished()
	} else {
		e.writtenBy(n.Data)
	}
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

// settle has the keeper find out what came of a transaction. It writes the same bytes on
// the same version, without the operations: either they stand there already, or the
// transaction can not be applied any more. It fails when ctx or the entry ends before
// that is known.
func (e *Entry) settle(ctx context.Context, w *write) (applied bool, why error) {
	now := e.keeper.clock.Local()
	e.mu.Lock()
	w.flying, w.doubt = false, true
	if w.wanted == e.writesWanted { // it is to be made again, be the lease a fixed one
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
