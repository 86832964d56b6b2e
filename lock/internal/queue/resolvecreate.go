package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// searchMost is the largest number of entries that one search reads.
const searchMost = 256

// resolveCreate returns the entry that a draft has created whose outcome is unknown; nil if it finds
// none. Then it remembers the draft's attempt as an orphan, because the create may be applied later. If
// the search fails, resolveCreate searches again in the background, to delete the entry.
func (c *contender) resolveCreate(ctx context.Context, created lease.Created, d *draft) (*Entry, error) {
	found, err := d.search(ctx)
	if found == nil {
		c.orphan(d.attempt)
	}
	if err != nil {
		c.Tasks.Go(d.remove)
		return nil, err
	}
	c.lock.believe(parent{state: unknown})
	if found == nil {
		return nil, nil
	}
	return d.entryAt(c.path(found.Name), found.Stat.Czxid, created), nil
}

// search looks for the entry that the draft has created, the youngest entries first. It reads at most
// searchMost entries. It returns nil if it finds none.
func (d *draft) search(ctx context.Context) (*znode.Entry, error) {
	c := d.by
	v := newView(c.Queue, c.Request, c.lock) // of its own: the contender may go on meanwhile
	names, err := v.list(ctx, true)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n znode.Name) bool { return !strings.HasPrefix(n.Node, d.prefix) })
	slices.Reverse(names)
	names = names[:min(len(names), searchMost)]
	for r := range zkconn.ReadEach(names, func(n znode.Name) (zkconn.Node, error) { return c.Conn.Get(ctx, c.path(n)) }) {
		if errors.Is(r.Err, zk.ErrNoNode) || errors.Is(r.Err, zk.ErrNoAuth) {
			continue
		} else if r.Err != nil {
			return nil, r.Err
		}
		switch e := znode.ReadEntry(r.Of, r.Value.Data, znode.Stat(*r.Value.Stat)); {
		case e.Record.Attempt == znode.FormatID(d.attempt):
			return &e, nil
		case e.Stat.Czxid <= d.since: // it and the remaining ones are older than the draft
			return nil, nil
		}
	}
	return nil, nil
}

// remove searches for the entry that the draft may have created, and deletes it. No goroutine waits for
// that entry any more.
func (d *draft) remove() {
	c := d.by
	ctx, cancel := context.WithTimeout(context.Background(), c.patience(&c.Terms))
	defer cancel()
	lock := c.open(c.Lock, c.KeepParent)
	defer c.close(lock)
	found, err := d.search(ctx)
	switch {
	case err != nil:
		c.noteLeftBehind(err)
		c.Log.Warn().Err(err).Str("lock", c.Lock).Str("attempt", znode.FormatID(d.attempt)).
			Msg("an orphaned entry may have been created; it is deleted when it appears, or left to expire")
	case found != nil:
		c.removeOrphan(c.path(found.Name), c.KeepParent, &c.Terms)
	default:
		c.tidy.checkLater(c.parent, c.KeepParent)
	}
}

// orphanTime is the time for which an orphan is remembered.
const orphanTime = time.Hour

// orphans are the attempts of entries of this client that should not exist: the reply to the create
// was lost, or the entry was found missing. If this client later reads an entry of one of the
// attempts, it deletes the entry.
type orphans struct {
	mu    sync.Mutex
	since map[string]time.Duration // monotonic time at which each attempt was added
	order []string                 // the attempts, oldest first
}

// orphan remembers an attempt as an orphan.
func (q *Queue) orphan(attempt uint64) { q.orphans.add(znode.FormatID(attempt), q.Clock.Mono()) }

func (o *orphans) add(attempt string, now time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since == nil {
		o.since = map[string]time.Duration{}
	}
	for len(o.order) > 0 && now-o.since[o.order[0]] > orphanTime {
		delete(o.since, o.order[0])
		o.order = o.order[1:]
	}
	if _, known := o.since[attempt]; !known {
		o.since[attempt] = now
		o.order = append(o.order, attempt)
	}
}

func (o *orphans) has(attempt string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, has := o.since[attempt]
	return has
}

func (o *orphans) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.since)
}
