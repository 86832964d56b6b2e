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

// Limits of search.
const (
	searchAtOnce = 16  // records that are read concurrently
	searchMost   = 256 // records that one search reads at most
)

// drafts are drafts of one contender whose outcomes are unknown.
type drafts []*draft

// resolveCreate returns the entry that one of the drafts has created; their outcomes are unknown.
// If no draft has created an entry, resolveCreate remembers the attempts of the drafts as orphans,
// because they may be applied later. Its error then makes Retry join again. If the search fails,
// resolveCreate searches again in the background, to delete the entry.
func (c *contender) resolveCreate(ctx context.Context, created lease.Created, inDoubt ...*draft) (*Entry, error) {
	found, d, err := drafts(inDoubt).search(ctx)
	if d == nil {
		for _, each := range inDoubt {
			c.orphan(each.attempt)
		}
	}
	switch {
	case err != nil:
		c.Tasks.Go(drafts(inDoubt).remove)
		return nil, zkconn.Final(err)
	case d == nil:
		c.lock.believe(parent{state: unknown})
		return nil, zkconn.NotSent(errors.New("the entry was not created"))
	}
	created.Acquired = d.acquired
	e := c.newEntry(c.path(found.Name), d.attempt, created)
	e.czxid = found.Stat.Czxid
	e.adopted, e.keepParent = d.parent.adopted, e.keepParent || d.parent.adopted
	c.lock.believe(parent{state: unknown})
	return e, nil
}

// search looks for an entry that one of the drafts has created, the youngest entries first. It
// reads at most searchMost entries. It returns the entry and the entry's draft; nil if it finds
// none.
func (ds drafts) search(ctx context.Context) (found *znode.Entry, of *draft, err error) {
	c := ds[0].by
	v := newView(c.Queue, c.Request, c.lock) // of its own: the contender may go on meanwhile
	names, err := v.list(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	since := ds[0].since
	names = slices.DeleteFunc(names, func(n znode.Name) bool {
		return !slices.ContainsFunc(ds, func(d *draft) bool { return strings.HasPrefix(n.Node, d.prefix) })
	})
	slices.Reverse(names)
	names = names[:min(len(names), searchMost)]
	for some := range slices.Chunk(names, searchAtOnce) {
		entries := make([]*znode.Entry, len(some))
		errs := make([]error, len(some))
		var reads sync.WaitGroup
		for i, n := range some {
			reads.Go(func() {
				node, err := c.Conn.Get(ctx, c.path(n))
				if errs[i] = err; err == nil {
					e := znode.ReadEntry(n, node.Data, znode.Stat(*node.Stat))
					entries[i] = &e
				}
			})
		}
		reads.Wait()
		for i, e := range entries {
			switch {
			case errs[i] != nil && !errors.Is(errs[i], zk.ErrNoNode) && !errors.Is(errs[i], zk.ErrNoAuth):
				return nil, nil, errs[i]
			case e == nil:
				continue
			}
			for _, d := range ds {
				if e.Record.Attempt == znode.FormatID(d.attempt) {
					return e, d, nil
				}
			}
			if e.Stat.Czxid <= since { // it and the remaining ones are older than the first draft
				return nil, nil, nil
			}
		}
	}
	return nil, nil, nil
}

// remove searches for the entry that one of the drafts may have created, and deletes it. No
// goroutine waits for that entry any more.
func (ds drafts) remove() {
	c := ds[0].by
	ctx, cancel := context.WithTimeout(context.Background(), c.patience(&c.Terms))
	defer cancel()
	lock := c.open(c.Lock, c.KeepParent)
	defer c.close(lock)
	found, _, err := ds.search(ctx)
	switch {
	case err != nil:
		c.noteLeftBehind(err)
		c.Log.Warn().Err(err).Str("lock", c.Lock).Str("attempt", znode.FormatID(ds[0].attempt)).
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
