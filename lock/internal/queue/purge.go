package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// purgeBatch returns the largest number of expired entries that one transaction deletes.
func (v *view) purgeBatch() int { return zkconn.BatchBytes / (len(v.parent) + 100) }

// purgeAhead lists once, deletes the expired entries right ahead of this waiter's entry, and sets
// the waiter's position; the zero value if it is unknown. After an outage of this client all other
// entries look expired, so purgeAhead then only renews the waiter's own entry.
func (w *waiter) purgeAhead(ctx context.Context) error {
	if !w.e.WroteSince(w.Conn.LastOutage()) {
		return w.e.Refresh(ctx)
	}
	settled := w.settled()
	names, self, err := w.listOwn(ctx)
	if err != nil {
		return err
	}
	var dead []*sighting
	for len(dead) < w.purgeBatch() {
		ahead := kindOf(w.Kind).nextAhead(names, self)
		if ahead < 0 {
			break
		}
		s, err := w.assess(ctx, names[ahead], false, w.prove)
		if errors.Is(err, zk.ErrNoNode) && !settled() {
			return w.settle(ctx)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) || err == nil && !s.expired {
			break // follow will handle the error, or wait for this contender
		}
		if err == nil {
			dead = append(dead, s)
		}
		names, self = slices.Delete(names, ahead, ahead+1), self-1
	}
	w.p = position{}
	if err := w.deleteExpired(ctx, dead); err != nil {
		return w.notPurged(ctx, dead, err, nil)
	}
	if settled() {
		return kindOf(w.Kind).inList(ctx, w, names, self, settled)
	}
	return nil
}

// purge deletes expired entries. After an outage it only renews the waiter's own entry.
func (w *waiter) purge(ctx context.Context, dead ...*sighting) error {
	w.p = position{}
	if !w.e.WroteSince(w.Conn.LastOutage()) {
		return w.e.Refresh(ctx)
	}
	return w.notPurged(ctx, dead, w.deleteEach(ctx, dead), nil)
}

// notPurged handles the error of a purge of those entries. If the purge was denied, a try returns err,
// and a waiter waits for pollEvery, because another client may be allowed to purge. After any other error
// it waits for 50 ms; the caller then reads again. changed ends the wait; nil: nothing does.
func (w *waiter) notPurged(ctx context.Context, dead []*sighting, err error, changed <-chan zk.Event) error {
	wait := 50 * time.Millisecond
	switch {
	case err == nil, purgeDenied(err) && w.trying:
		return err
	case purgeDenied(err):
		w.warnDenied(dead, err)
		wait = pollEvery
	}
	_, err = w.awaitChange(ctx, wait, nil, changed)
	return err
}

// purgeDenied reports whether a purge has failed because this client cannot delete the entries.
func purgeDenied(err error) bool {
	return errors.Is(err, zkconn.ErrDenied) || errors.Is(err, ErrForeign)
}

// deleteExpired deletes expired entries in one transaction, each on the version that was judged. It
// reports each to the log and to Options.Purged.
func (v *view) deleteExpired(ctx context.Context, dead []*sighting) error {
	if len(dead) == 0 {
		return nil
	}
	ops := make([]any, len(dead))
	for i, s := range dead {
		ops[i] = &zk.DeleteRequest{Path: v.path(s.entry.Name), Version: s.entry.Stat.Version}
	}
	if _, err := v.send(ctx, ops...); errors.Is(err, zk.ErrNoAuth) {
		return denied("delete below", v.parent)
	} else if op, cause := zkconn.RefusedOp(err); errors.Is(cause, zk.ErrNotEmpty) {
		return fmt.Errorf("%w: below an expired entry, %s, there is a node", ErrForeign, v.path(dead[max(0, op)].entry.Name))
	} else if err != nil {
		return err
	}
	for _, s := range dead {
		e := &s.entry
		v.purged.Add(1)
		v.Log.Info().Str("lock", v.Lock).Str("entry", v.path(e.Name)).Str("owner", e.Record.Owner).Str("host", e.Record.Host).Int("pid", e.Record.PID).
			Bool("granted", e.Granted()).Time("expired", e.Expires(v.Clock.Now()).UTC()).Msg("purged an expired entry")
		v.Purged(&v.Request, v.path(e.Name))
		if v.Priority != 0 && e.Priority() > v.Priority && !e.Granted() {
			v.immune = max(v.immune, e.Priority())
		}
	}
	v.tidy.checkLater(v.parent, v.KeepParent)
	return nil
}

// purgeAmong deletes the expired entries among the given contenders, which are purgeBatch at most, and
// returns those that have expired. It needs no entry.
func (v *view) purgeAmong(ctx context.Context, names []znode.Name) (dead []*sighting, err error) {
	if dead, err = v.expired(ctx, names); err == nil {
		err = v.deleteEach(ctx, dead)
	}
	return dead, err
}

// expired reads contenders, several at once, and returns those that have expired. It
// gets missing proofs by samples. It remembers no sighting of an entry that has gone, and one without
// data of an entry that an ACL hides.
func (v *view) expired(ctx context.Context, names []znode.Name) (dead []*sighting, err error) {
	for r := range zkconn.ReadEach(names, func(n znode.Name) (*sighting, error) { return v.sight(ctx, n, false, v.Clock.Prove) }) {
		s, err := r.Value, r.Err
		if errors.Is(err, zk.ErrNoAuth) {
			s, err = &sighting{entry: znode.Entry{Name: r.Of}, read: v.Clock.Mono(), wait: -1}, nil
		}
		switch v.remember(r.Of, s, err); {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			return nil, err
		case s.expired:
			dead = append(dead, s)
		}
	}
	return dead, nil
}

// deleteEach is deleteExpired, except that an entry that cannot be deleted does not keep the others.
func (v *view) deleteEach(ctx context.Context, dead []*sighting) error {
	err := v.deleteExpired(ctx, dead)
	if op, _ := zkconn.RefusedOp(err); len(dead) > 1 && (op >= 0 || errors.Is(err, ErrForeign)) {
		err = nil // one of them was written, has gone, or has a node below it: it stays, the others go
		for _, s := range dead {
			err = cmp.Or(err, v.deleteExpired(ctx, []*sighting{s}))
		}
	}
	return err
}
