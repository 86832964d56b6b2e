package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// sighting is the last read of another contender's entry, and the conclusions from it.
type sighting struct {
	entry   znode.Entry
	read    time.Duration   // monotonic time of the read
	since   time.Duration   // monotonic time of the first read of this version, for [znode.Entry.Judge]
	changed <-chan zk.Event // watch on the entry; nil: none
	expired bool
	wait    time.Duration // time until the next check, unless expired; negative: the entry has no lease
}

// sightingOf returns the sighting of an entry that was just read; before is the entry's last
// sighting; nil: none.
func (v *view) sightingOf(before *sighting, e znode.Entry, changed <-chan zk.Event) *sighting {
	now := v.Clock.Mono()
	s := &sighting{entry: e, read: now, since: now, changed: changed}
	if before != nil && before.entry.Node == e.Node && sameWrite(&before.entry.Stat, &e.Stat) {
		s.since = before.since
	}
	return s
}

// sameWrite reports whether two reads of a node have shown the same write. After a restore, another
// write may have the same number.
func sameWrite(a, b *znode.Stat) bool {
	return a.Mzxid == b.Mzxid && a.Mtime == b.Mtime && a.Version == b.Version
}

// due returns the monotonic time from which the entry must be read again, if no watch shows its
// changes.
func (s *sighting) due() time.Duration {
	if s.wait < 0 {
		return s.read + readAgainAfter
	}
	return s.read + s.wait
}

// judge decides whether an entry has expired, see [znode.Entry.Judge]. After an outage of this
// client, other clients may have had one too, so entries that were not written after the outage get
// a third of their TTL more.
func (v *view) judge(s *sighting, knew znode.Now) (znode.Verdict, time.Duration) {
	grace := v.Terms.Grace
	if v.resumed.before(s.entry.Stat.Mzxid, v.Conn.LastOutage(), v.Queue) {
		grace += s.entry.TTL() / 3
	}
	return s.entry.Judge(knew, grace, v.Clock.Mono()-s.since)
}

// proof gets the missing proof for an unproven verdict on the write of the transaction mzxid:
// [clock.Clock.Prove], or a waiter's prove.
type proof func(ctx context.Context, knew znode.Now, mzxid int64) error

// assess reads an entry, decides whether it has expired, and remembers the sighting. If the verdict
// needs a proof, it calls prove and reads the entry again. watch asks for a watch. It fails with
// zk.ErrNoNode if the entry has gone, and with zk.ErrNoAuth if an ACL forbids the read.
func (v *view) assess(ctx context.Context, n znode.Name, watch bool, prove proof) (*sighting, error) {
	s, err := v.sight(ctx, n, watch, prove)
	v.remember(n, s, err)
	return s, err
}

// remember records the result of sight as the last sighting of n.
func (v *view) remember(n znode.Name, s *sighting, err error) {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		delete(v.known, n.Node)
	case err == nil:
		if v.known == nil {
			v.known = map[string]*sighting{}
		}
		v.known[n.Node] = s
	}
}

// sight is assess, except that it does not remember the sighting. Several calls may run at once.
func (v *view) sight(ctx context.Context, n znode.Name, watch bool, prove proof) (*sighting, error) {
	before := v.known[n.Node]
	for try := 0; ; try++ {
		var node zkconn.Node
		var changed <-chan zk.Event
		var err error
		if watch {
			node, changed, err = v.Conn.Watch(ctx, v.path(n))
		} else {
			node, err = v.Conn.Get(ctx, v.path(n))
		}
		if err != nil {
			return before, err
		}
		before = v.sightingOf(before, znode.ReadEntry(n, node.Data, znode.Stat(*node.Stat)), changed)
		v.blocker(v.blocked(before))
		if v.orphans.has(before.entry.Record.Attempt) {
			v.removeOrphan(v.path(n), v.KeepParent, &v.Terms)
		}
		knew := v.Clock.Now()
		verdict, wait := v.judge(before, knew)
		before.expired, before.wait = verdict == znode.Expired, wait
		if verdict != znode.Unproven && !(before.expired && try == 0 && v.Clock.Outdated()) {
			return before, nil
		}
		if try == 3 { // the entry is written faster than it can be judged
			before.wait = time.Second
			return before, nil
		}
		switch err := prove(ctx, knew, before.entry.Stat.Mzxid); {
		case errors.Is(err, zkconn.ErrDenied), errors.Is(err, zk.ErrNoNode):
			verdict, _ = v.judge(before, znode.Now{}) // this client's own clock alone decides
			before.expired, before.wait = verdict == znode.Expired, pollEvery
			return before, nil
		case err != nil:
			return before, err
		}
	}
}

// inTheWay returns a Blocked if the contender n is alive, as far as is known, and c cannot share the
// lock with it.
func (v *view) inTheWay(ctx context.Context, n znode.Name) error {
	s, err := v.assess(ctx, n, false, v.Clock.Prove)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		return &Blocked{Path: v.path(n)}
	case err != nil:
		return err
	case s.expired, v.Role == znode.Shared && s.entry.Shares():
		return nil
	}
	return v.blocked(s)
}

// blocked returns the Blocked of an entry in the way.
func (v *view) blocked(s *sighting) *Blocked {
	b := &Blocked{Path: v.path(s.entry.Name), Trouble: v.trouble}
	if s.entry.Stat.Czxid != 0 { // it was read
		b.Entry = &s.entry
	}
	return b
}

// resumption has the first transaction that this client knows to be later than an outage.
type resumption struct {
	mu     sync.Mutex
	outage time.Duration // result of LastOutage for the outage
	zxid   int64         // the transaction; 0: none yet
}

// before reports whether there was an outage, and the transaction zxid may be older than the end of
// the outage. outage is the result of LastOutage.
func (r *resumption) before(zxid int64, outage time.Duration, q *Queue) bool {
	if outage < 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.zxid == 0 || r.outage != outage {
		sampled, since := q.Clock.Sampled()
		if since < outage {
			return true // no sample since the outage: zxid may be older
		}
		r.outage, r.zxid = outage, sampled
	}
	return zxid <= r.zxid
}
