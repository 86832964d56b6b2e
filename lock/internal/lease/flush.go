package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// renewal is a write of an entry in flight.
type renewal struct {
	*Entry
	*write
}

// size returns the size of the renewal in a transaction, in bytes: at most a few too many.
func (r renewal) size() int { return len(r.data) + len(r.Path) + 24 }

// flight is a batch of renewals that are sent in one transaction, until none is left.
type flight struct {
	*Keeper
	batch  []renewal
	spread float64         // random factor of the next due time; one for all, so the batch stays together
	tried  bool            // an attempt of this flight may have been applied
	before map[*write]bool // writes in doubt before this flight: an earlier flight or a transaction may have applied them
}

// flush writes the batch in one transaction, and retries until each write is acknowledged, refused
// or not needed any more. A write in doubt is sent again with the same bytes on the same version, so
// it is applied at most once.
func (k *Keeper) flush(ctx context.Context, batch []renewal) {
	f := &flight{Keeper: k, batch: batch, spread: float64(k.vary(1<<20, 1<<17)) / (1 << 20), before: map[*write]bool{}}
	for _, b := range batch {
		if b.bytesInDoubt(b.write) != nil {
			f.before[b.write] = true
		}
	}
	// The error is ignored: refused has logged it, or the client closes.
	_ = f.conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		return f.attempt(ctx)
	})
}

// attempt sends the writes that are still needed, in one transaction. Its error is for Retry.
func (f *flight) attempt(ctx context.Context) error {
	var ops []any
	still := f.batch[:0]
	for _, b := range f.batch {
		if version, wanted := b.attempt(b.write); wanted {
			still = append(still, b)
			ops = append(ops, &zk.SetDataRequest{Path: b.Path, Data: b.data, Version: version})
		} else {
			b.postpone(b.write)
		}
	}
	if f.batch = still; len(f.batch) == 0 {
		return nil
	}
	session, sent := f.conn.Session(), f.clock.Local()
	silent := time.AfterFunc(f.patience(), f.conn.NoteOutage)
	replies, err := f.conn.Multi(ctx, ops...)
	if !silent.Stop() {
		f.conn.NoteOutage() // the outage has lasted until now
	}
	received := f.clock.Local()
	if err == nil {
		for i, b := range f.batch {
			b.acknowledge(b.write, sent, session, replies[i].Stat.Version, replies[i].Stat.Mzxid, f.next(b.write), received)
		}
		f.observe(replies[0].Stat, sent, received) // the stamp is the same for all
		f.renewals.Add(uint64(len(f.batch)))
		return nil
	}
	if zkconn.OutcomeOf(err) == zkconn.Ambiguous {
		f.tried = true
		for _, b := range f.batch {
			b.suspect(b.write)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return f.refused(ctx, err, session, ops)
}

// patience returns the time after which an unanswered transaction counts as an outage: a third of
// the shortest TTL in the batch, but at least a second.
func (f *flight) patience() time.Duration {
	return max(time.Second, slices.MinFunc(f.batch, func(a, b renewal) int { return cmp.Compare(a.ttl, b.ttl) }).ttl/3)
}

// next returns the time from the send of an acknowledged write to the next write.
func (f *flight) next(w *write) time.Duration {
	return time.Duration(float64(w.ttl/3) * f.spread)
}

// refused handles the error of a transaction, and returns the error for Retry. If the server refused
// one write, that write leaves the batch, and the other writes are sent again at once. If it refused
// the whole transaction, all are postponed.
func (f *flight) refused(ctx context.Context, err error, session int64, ops []any) error {
	i, cause := zkconn.RefusedOp(err)
	switch {
	case zkconn.OutcomeOf(err) != zkconn.Refused:
		return err
	case i < 0: // the server refused the whole transaction
		for _, b := range f.batch {
			b.postpone(b.write)
		}
		if !errors.Is(err, zkconn.ErrClosed) {
			f.log.Error().Err(err).Int("entries", len(f.batch)).Msg("renewals refused; they are tried again, and holds are lost at the end of their leases unless one succeeds")
		}
		return nil
	}
	b := f.batch[i]
	switch {
	case errors.Is(cause, zk.ErrNoNode):
		b.Vanished()
	case errors.Is(cause, zk.ErrBadVersion):
		if f.resolveRenewal(ctx, b, session, ops) {
			return nil
		}
	default:
		f.log.Error().Err(cause).Str("entry", b.Path).
			Msg("renewal refused; the hold is lost at the end of its lease unless a later one succeeds")
		b.postpone(b.write)
	}
	f.batch = append(f.batch[:i], f.batch[i+1:]...)
	return zkconn.ErrAgain
}

// resolveRenewal finds out why a renewal was refused because of the entry's version. If the node has
// the bytes of the write, it acknowledges the write. If not, the entry ends. If the read fails, it
// postpones the write. all reports that the whole batch was applied: each attempt had all renewals
// that are still in the batch. It is unknown which attempt was applied, so the leases count from
// the first.
func (f *flight) resolveRenewal(ctx context.Context, b renewal, session int64, ops []any) (all bool) {
	n, applied, err := b.resolve(ctx, b.bytesInDoubt(b.write))
	switch {
	case err != nil:
		b.postpone(b.write)
	case !applied:
	case f.tried && !f.before[b.write]:
		received := f.clock.Local()
		for i, b := range f.batch {
			b.acknowledge(b.write, b.first, session, ops[i].(*zk.SetDataRequest).Version+1, n.Stat.Mzxid, f.next(b.write), received)
		}
		f.renewals.Add(uint64(len(f.batch)))
		return true
	default: // an earlier batch, or a user's transaction, has written these bytes
		b.acknowledge(b.write, b.first, session, n.Stat.Version, n.Stat.Mzxid, f.next(b.write), f.clock.Local())
		f.renewals.Add(1)
	}
	return false
}
