package lease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// After the create only this file and last.go write an entry's node: this file while the entry lasts,
// last.go when it has ended, and to attach. Of the writes in this file one is in flight or in doubt at a time.

// write is a write of an entry's record. All attempts have the same bytes and the same version, so
// at most one is applied.
type write struct {
	e        *Entry
	data     []byte
	version  int32 // data version of the node before the write
	with     []any // operations of a transaction between two writes of the record; nil: one write
	ttl      time.Duration
	acquired int64
	wanted   uint32        // value of Entry.writesWanted that it satisfies
	first    clock.Instant // just before the first attempt was sent
	by       *atomic.Bool  // handle of the transaction, see Entry.Txn; nil: none

	flying  bool  // a goroutine is sending it
	doubt   bool  // an earlier attempt may have been applied
	earlier bool  // it was in doubt before its present flight
	raised  int32 // increase of the node's version by the write; 0: unknown
	refused error // the server's answer to an operation of the transaction
}

// newWrite returns the next write of the entry; e.mu is held.
func (e *Entry) newWrite(now clock.Instant) *write {
	r := e.keeper.Record(&e.Terms, e.nextTTL, e.grantForRecord(), now)
	return &write{
		e: e, data: r.Encode(), version: e.version, ttl: e.nextTTL, acquired: e.acquired, wanted: e.writesWanted, first: now, flying: true,
	}
}

// size returns the size of the record's write in a transaction, in bytes: at most a few too many.
func (w *write) size() int { return len(w.data) + len(w.e.Path) + 24 }

// ops returns the operations of the next attempt; nil if the write is not wanted any more. A write
// in doubt is sent without the operations of its transaction: once it was applied, the transaction
// cannot be applied any more.
func (w *write) ops() []any {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.e.state == Ended || w.e.writing != w {
		return nil
	}
	set := func(version int32) any { return &zk.SetDataRequest{Path: w.e.Path, Data: w.data, Version: version} }
	if w.with == nil || w.doubt {
		return []any{set(w.version)}
	}
	return slices.Concat([]any{set(w.version)}, w.with, []any{set(w.version + 1)})
}

// suspect records that the write may have been applied.
func (w *write) suspect() {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.doubt = true
}

// inDoubt reports whether the write may have been applied.
func (w *write) inDoubt() bool { return locked(w.e, func() bool { return w.doubt }) }

// acknowledge handles the reply to a write, or a read that shows the write. sent and session are
// the time of the write's send and its session. The transaction zxid left the node's data at this
// version. The next write is due at sent plus next.
func (w *write) acknowledge(sent clock.Instant, session int64, version int32, zxid int64, next time.Duration, now clock.Instant) {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing != w {
		return
	}
	e.writing, w.raised = nil, version-e.version
	e.lease, e.version, e.session, e.zxid = lease{sent, w.ttl}, version, session, zxid
	e.suspectSince = 0
	e.recorded = w.acquired != 0
	e.writesAcked = w.wanted
	e.renewAt = sent.Mono + next
	if e.atRisk && !e.endsSoon(now) {
		e.atRisk = false
		e.withdrawWarnings()
	}
	e.check()
	e.notify()
	e.scheduleNext(now)
}

// postpone ends the flight of a write that was not acknowledged. Unless the entry has ended,
// another try is due after a tenth of the acknowledged lease, or of the next one if that is shorter. A
// write in doubt is sent again with the same bytes. Until its outcome is known, the earlier end of its
// lease and of the acknowledged one counts.
func (w *write) postpone() {
	e := w.e
	now := e.keeper.Clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing != w {
		return
	}
	if w.flying = false; !w.doubt {
		e.writing = nil
	}
	e.check()
	e.notify()
	e.renewAt = now.Mono + min(e.nextTTL, e.lease.ttl)/10
	e.schedule(e.renewAt, now)
}

// drop ends a write that was not applied, unless it is in doubt. The next renewal is due as before.
func (w *write) drop() {
	e := w.e
	now := e.keeper.Clock.Local()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writing == w && !w.doubt {
		e.writing = nil
		e.notify()
		e.scheduleNext(now)
	}
}

// flight is a batch of writes that are sent in one transaction, until none is left.
type flight struct {
	*Keeper
	batch  []*write
	txn    bool    // the batch is the write of a user's transaction, which Entry.Txn retries
	spread float64 // random factor of the next due time; one for all, so the batch stays together
	tried  bool    // an attempt of this flight may have been applied
	ends   []int   // ends[i]: number of operations of the writes up to batch[i] in the last attempt
}

func (k *Keeper) flight(batch ...*write) *flight {
	return &flight{Keeper: k, batch: batch, spread: float64(k.Jitter(1<<20, 1<<17)) / (1 << 20)}
}

// flush sends the batch in one transaction, and retries until each write is acknowledged, refused
// or not needed any more, or ctx ends.
func (k *Keeper) flush(ctx context.Context, batch []*write) {
	f := k.flight(batch...)
	err := f.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error { return f.attempt(ctx) })
	for _, w := range f.batch {
		w.postpone()
	}
	if zkconn.OutcomeOf(err) == zkconn.Refused && !errors.Is(err, zkconn.ErrClosed) {
		f.Log.Error().Err(err).Int("entries", len(f.batch)).Msg("renewals refused; they are tried again, and holds are lost at the end of their leases unless one succeeds")
	}
}

// attempt sends the writes that are still needed, in one transaction. Its error is for Retry.
func (f *flight) attempt(ctx context.Context) error {
	if err := f.Conn.Ready(ctx); err != nil { // before ops: an entry that ends meanwhile is not written
		return err
	}
	var ops []any
	still := f.batch[:0]
	f.ends = f.ends[:0]
	for _, w := range f.batch {
		own := w.ops()
		if own == nil {
			w.postpone()
			continue
		}
		ops = append(ops, own...)
		still, f.ends = append(still, w), append(f.ends, len(ops))
	}
	if f.batch = still; len(f.batch) == 0 {
		return nil
	}
	session, sent := f.Conn.Session(), f.Clock.Local()
	silent := time.AfterFunc(f.patience(), f.Conn.NoteOutage)
	replies, err := f.Conn.Multi(ctx, ops...)
	if !silent.Stop() {
		f.Conn.NoteOutage() // the outage has lasted until now
	}
	switch zkconn.OutcomeOf(err) {
	case zkconn.Applied:
		received := f.Clock.Local()
		for i, w := range f.batch {
			stat := replies[f.ends[i]-1].Stat
			w.acknowledge(sent, session, stat.Version, stat.Mzxid, f.next(w), received)
		}
		f.observe(replies[0].Stat, sent, received) // the stamp is the same for all
		f.renewals.Add(uint64(len(f.batch)))
	case zkconn.Ambiguous:
		f.tried = true
		for _, w := range f.batch {
			w.suspect()
		}
	case zkconn.Refused:
		return f.refused(ctx, err, session)
	}
	return err
}

// patience returns the time after which an unanswered transaction counts as an outage: a third of
// the shortest TTL in the batch, but at least a second.
func (f *flight) patience() time.Duration {
	return max(time.Second, slices.MinFunc(f.batch, func(a, b *write) int { return cmp.Compare(a.ttl, b.ttl) }).ttl/3)
}

// next returns the time from the send of an acknowledged write to the next write.
func (f *flight) next(w *write) time.Duration {
	return time.Duration(float64(w.ttl/3) * f.spread)
}

// refused handles the refusal of a transaction, and returns the error for Retry. If the server refused
// one operation, its write leaves the batch, and the other writes are sent again at once.
func (f *flight) refused(ctx context.Context, err error, session int64) error {
	op, cause := zkconn.RefusedOp(err)
	if op < 0 { // the server refused the whole transaction
		return err
	}
	i := slices.IndexFunc(f.ends, func(end int) bool { return op < end })
	w := f.batch[i]
	switch {
	case f.txn && op > 0 && op < f.ends[i]-1:
		w.refused = zkconn.RefusedAt(op-1, cause)
	case errors.Is(cause, zk.ErrNoNode):
		w.e.Vanished()
	case errors.Is(cause, zk.ErrBadVersion):
		if f.resolve(ctx, w, session) {
			return nil
		}
	case f.txn:
		w.refused = fmt.Errorf("write %s: %w", w.e.Path, cause)
	default:
		f.Log.Error().Err(cause).Str("entry", w.e.Path).
			Msg("renewal refused; the hold is lost at the end of its lease unless a later one succeeds")
		w.e.denied(cause, f.Clock.Local())
		w.postpone()
	}
	f.batch = slices.Delete(f.batch, i, i+1)
	return zkconn.ErrAgain
}

// resolve finds out why a write was refused because of the entry's version. If the node has the
// bytes of a write in doubt, it acknowledges the write. If not, the entry ends. If the read fails, it
// postpones the write. all reports that the whole batch was applied: each attempt had all writes
// that are still in the batch. It is unknown which attempt was applied, so the leases count from
// the first.
func (f *flight) resolve(ctx context.Context, w *write, session int64) (all bool) {
	n, foreign, err := readBack(ctx, f.Conn, w.e, func(n zkconn.Node) bool { return w.inDoubt() && bytes.Equal(n.Data, w.data) })
	received := f.Clock.Local()
	switch {
	case errors.Is(err, zk.ErrNoNode):
		w.e.Vanished()
	case err != nil:
		w.postpone()
	case foreign != nil:
		w.e.overwritten(foreign)
	case f.tried && !w.earlier:
		for _, w := range f.batch {
			w.acknowledge(w.first, session, w.version+1, n.Stat.Mzxid, f.next(w), received)
		}
		f.renewals.Add(uint64(len(f.batch)))
		return true
	default: // an earlier batch, or a user's transaction, has written these bytes
		w.acknowledge(w.first, session, n.Stat.Version, n.Stat.Mzxid, f.next(w), received)
		f.renewals.Add(1)
	}
	return false
}

// readBack reads the node of an entry after the server has refused a write because of its version.
// ours reports whether this client has written what the node shows. If not, foreign is the reason of
// [Terms.OverwrittenBy].
func readBack(ctx context.Context, conn *zkconn.Conn, e *Entry, ours func(zkconn.Node) bool) (n zkconn.Node, foreign, err error) {
	n, err = conn.GetSynced(ctx, e.Path) // in a new session the server may lag behind this client's write
	if err == nil && !ours(n) {
		foreign = e.OverwrittenBy(n.Data)
	}
	return n, foreign, err
}
