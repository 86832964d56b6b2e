package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// purgeBatch is how many deletes are made in one transaction.
const purgeBatch = 100

// errUnsettled says that something was not there by a read that proves nothing.
var errUnsettled = errors.New("the session has changed")

// resumption is the first transaction that is known to be younger than an outage.
type resumption struct {
	mu     sync.Mutex
	outage time.Duration
	zxid   int64
}

// before reports whether the transaction may have been made before the outage ended, if
// there was one.
func (r *resumption) before(zxid int64, outage time.Duration, q *Queue) bool {
	if outage < 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.zxid == 0 || r.outage != outage {
		sampled, since := q.Clock.Sampled()
		if since < outage {
			return true // nothing is known that is younger
		}
		r.outage, r.zxid = outage, sampled
	}
	return zxid <= r.zxid
}

// purge deletes the run of expired entries that stand ahead, by one listing, and
// returns where that leaves us.
func (w *waiter) purge(ctx context.Context) (position, error) {
	names, self, err := w.survey(ctx)
	if err != nil {
		return position{}, err
	}
	run := w.purgeRun
	if w.Kind == znode.Semaphore && (w.ahead != nil || w.trying) {
		run = w.purgeCrowd
	}
	listed, settled := self, w.sameSessionSince()
	names, self, err = run(ctx, names, self, settled)
	switch denied := errors.Is(err, zkconn.ErrDenied) || errors.Is(err, ErrForeign); {
	case denied && w.trying:
		return position{}, err
	case err != nil:
		return position{}, w.notPurged(ctx, err)
	}
	if w.Kind == znode.Semaphore && self < listed { // who has gone may have lowered the number of permits
		if err := w.readParent(ctx); err != nil || !settled() {
			return position{}, err
		}
	}
	return w.place(names, self), nil
}

// purgeRun deletes the run of expired contenders that stand ahead of the one at self,
// in one transaction, each on the version that it was judged on. It returns who is
// left. That a contender of the list is not there any more counts only if settled says
// that the read was as young as the list; and one that cannot be read is in the way.
func (w *waiter) purgeRun(ctx context.Context, names []znode.Name, self int, settled func() bool) ([]znode.Name, int, error) {
	var dead []znode.Entry
	for len(dead) < purgeBatch {
		ahead := znode.Admit(names, self, w.rules())
		if ahead < 0 || ahead == self {
			break
		}
		n, err := w.Conn.Get(ctx, w.parent+"/"+names[ahead].Node)
		switch {
		case errors.Is(err, zk.ErrNoNode) && !settled():
			return nil, 0, errUnsettled
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return names, self, w.purgeAll(ctx, dead) // whoever follows that entry meets the error too
		case err == nil:
			entry := znode.ReadEntry(names[ahead], n.Data, znode.Stat(*n.Stat))
			if !w.hasExpired(&entry) {
				return names, self, w.purgeAll(ctx, dead)
			}
			dead = append(dead, entry)
		}
		names, self = slices.Delete(names, ahead, ahead+1), self-1
	}
	return names, self, w.purgeAll(ctx, dead)
}

// hasExpired judges an entry that was just read: by what was seen of it before, if it
// is the predecessor.
func (w *waiter) hasExpired(entry *znode.Entry) bool {
	before := w.seen
	if w.ahead != nil && !before.shows(entry) {
		before = w.ahead.seen[entry.Node]
	}
	v, _ := w.judge(w.observed(before, *entry), w.Clock.Now())
	return v == znode.Expired
}

// purgeAll deletes entries that have expired, in one transaction.
func (c *contender) purgeAll(ctx context.Context, dead []znode.Entry) error {
	if len(dead) == 0 {
		return nil
	}
	ops := make([]any, len(dead))
	for i, e := range dead {
		ops[i] = &zk.DeleteRequest{Path: c.parent + "/" + e.Node, Version: e.Stat.Version}
	}
	if _, err := c.Conn.Multi(ctx, nil, ops...); errors.Is(err, zk.ErrNoAuth) {
		return fmt.Errorf("%w: delete below %s: its ACL does not let us", zkconn.ErrDenied, c.parent)
	} else if op, cause := zkconn.RefusedOp(err); cause == zk.ErrNotEmpty {
		return fmt.Errorf("%w: an expired entry, %s/%s, has a node below it that nobody of ours made", ErrForeign, c.parent, dead[max(0, op)].Node)
	} else if err != nil {
		return err
	}
	for _, e := range dead {
		c.purged.Add(1)
		c.Log.Info().Str("lock", c.Lock).Str("entry", c.parent+"/"+e.Node).Str("owner", e.Record.Owner).Str("host", e.Record.Host).Int("pid", e.Record.PID).
			Bool("granted", e.Granted()).Time("expired", e.Expires().UTC()).Msg("purged an expired entry")
		c.Purged(&c.Request, c.parent+"/"+e.Node)
	}
	return nil
}

// purgeTail deletes the contenders that stand last, as far as they have expired, for
// one that left the queue.
func (c *contender) purgeTail(ctx context.Context, e *Entry) error {
	names, _, err := c.contenders(ctx, false)
	if err != nil || len(names) == 0 {
		return err
	}
	last := len(names) - 1
	if _, err := c.blockedBy(ctx, names[last]); err != nil {
		return err
	}
	one := *c
	one.Kind = znode.Mutex // whoever is last minds all of them
	w := &waiter{contender: &one, e: e}
	names = append(names, znode.Name{Node: e.Name().Node})
	_, _, err = w.purgeRun(ctx, names, last+1, func() bool { return true }) // nobody enters by it
	return err
}
