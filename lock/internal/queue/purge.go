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
		ahead := w.nextAhead(names, self)
		if ahead < 0 {
			break
		}
		s, err := w.assess(ctx, names[ahead], w.seen, false, w.prove)
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
		return w.notPurged(ctx, err)
	}
	if w.Kind != znode.Semaphore && settled() {
		w.p = positionOf(names, self, w.rules(0))
	}
	return nil
}

// nextAhead returns the index of the nearest contender that the contender at self waits for; for a
// semaphore, of the contender right ahead. It is negative if there is none.
func (w *waiter) nextAhead(names []znode.Name, self int) int {
	if w.Kind == znode.Semaphore {
		return self - 1
	}
	return znode.WaitsFor(names, self, w.rules(0))
}

// purge deletes expired entries. After an outage it only renews the waiter's own entry.
func (w *waiter) purge(ctx context.Context, dead ...*sighting) error {
	w.p = position{}
	if !w.e.WroteSince(w.Conn.LastOutage()) {
		return w.e.Refresh(ctx)
	}
	return w.notPurged(ctx, w.deleteEach(ctx, dead))
}

// purgeDue reads the holders that may have expired since their last read, and purges those that
// have. It does so at most once in a quarter of the TTL, and stops early when the contenders change.
// After an outage it only renews the waiter's own entry.
func (w *waiter) purgeDue(ctx context.Context, names []znode.Name, changed <-chan zk.Event) error {
	if w.purgeAt.IsZero() {
		w.purgeAt = time.Now() // not the first time: most waiters are the first one only briefly
	}
	if time.Since(w.purgeAt) < w.Terms.TTL/4 {
		return nil
	}
	last := w.purgeAt
	w.purgeAt = time.Now()
	if !w.e.WroteSince(w.Conn.LastOutage()) {
		return w.e.Refresh(ctx)
	}
	due := func(n znode.Name) time.Duration {
		if s := w.sightings[n.Node]; s != nil {
			return min(s.due(), s.read+w.Terms.TTL) // the lease may have been shortened since
		}
		return 0
	}
	now := w.Clock.Mono()
	names = slices.DeleteFunc(slices.Clone(names), func(n znode.Name) bool { return due(n) > now })
	slices.SortStableFunc(names, func(a, b znode.Name) int { return cmp.Compare(due(a), due(b)) })
	var err error
	for some := range slices.Chunk(names, fewHolders) {
		err = cmp.Or(err, w.purgeAmong(ctx, some, w.sightings))
		if zkconn.Fired(changed) { // there may be room: count first
			if err == nil {
				w.purgeAt = last // go on soon
			}
			return nil
		}
	}
	return w.notPurged(ctx, err)
}

// notPurged handles the error of a purge. If the purge was denied, a try returns err, and a waiter
// pauses for pollEvery, because another client may be allowed to purge. After any other error it
// pauses for 50 ms; the caller then reads again.
func (w *waiter) notPurged(ctx context.Context, err error) error {
	denied := errors.Is(err, zkconn.ErrDenied) || errors.Is(err, ErrForeign)
	switch {
	case err == nil, denied && w.trying:
		return err
	case denied:
		w.Log.Warn().Err(err).Str("lock", w.Lock).Msg("expired entries ahead cannot be deleted; waiting until another client does")
		return w.e.Pause(ctx, pollEvery)
	}
	return w.e.Pause(ctx, 50*time.Millisecond)
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
		return fmt.Errorf("%w: delete below %s: its ACL does not let us", zkconn.ErrDenied, v.parent)
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

// purgeAmong deletes the expired entries among the given contenders. It judges at most purgeBatch
// of them. It gets missing proofs by samples, so the contender needs no entry. If seen is not nil, it
// has the last sightings by name, and purgeAmong adds its own.
func (v *view) purgeAmong(ctx context.Context, names []znode.Name, seen map[string]*sighting) error {
	var dead []*sighting
	for _, n := range names[:min(len(names), v.purgeBatch())] {
		s, err := v.assess(ctx, n, seen[n.Node], false, v.byClock)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
			continue
		case err != nil:
			return err
		case s.expired:
			dead = append(dead, s)
		}
		if seen != nil {
			seen[n.Node] = s
		}
	}
	return v.deleteEach(ctx, dead)
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
