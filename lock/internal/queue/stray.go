package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// quarantineTime is for how long the id of an entry that should not be there is
// remembered.
const quarantineTime = time.Hour

// quarantine are ids of entries that should not be there: their create got lost, or
// they were seen to be gone. Should one appear, whoever lists deletes it.
type quarantine struct {
	mu    sync.Mutex
	since map[string]time.Duration // monotonic
	order []string                 // by age
}

func (s *quarantine) add(id string, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since == nil {
		s.since = map[string]time.Duration{}
	}
	for len(s.order) > 0 && now-s.since[s.order[0]] > quarantineTime {
		delete(s.since, s.order[0])
		s.order = s.order[1:]
	}
	if _, known := s.since[id]; !known {
		s.since[id] = now
		s.order = append(s.order, id)
	}
}

// among returns those that should not be there.
func (s *quarantine) among(names []znode.Name) []znode.Name {
	s.mu.Lock()
	defer s.mu.Unlock()
	var strays []znode.Name
	if len(s.since) == 0 {
		return nil
	}
	for _, n := range names {
		if _, stray := s.since[n.ID]; stray {
			strays = append(strays, n)
		}
	}
	return strays
}

// Strays is how many ids are remembered of entries that should not be there.
func (q *Queue) Strays() int {
	q.quarantine.mu.Lock()
	defer q.quarantine.mu.Unlock()
	return len(q.quarantine.since)
}

// orphan is the entry of a node that nobody of us means to keep.
func (c *contender) orphan(n znode.Name) *Entry {
	e := &Entry{Kind: c.Kind, queue: c.Queue, keepParent: c.KeepParent}
	e.InitEnded(e, c.parent+"/"+n.Node, c.Terms, lease.ErrWithdrawn)
	return e
}

// cleanUpAbandoned deletes what an attempt has made that nobody waits for any more,
// from its reply, which came late.
func (c *contender) cleanUpAbandoned(d *draft, replies []zk.MultiResponse, err error) {
	switch zkconn.OutcomeOf(err) {
	case zkconn.Applied:
		path := replies[d.at].String
		name, _ := znode.Parse(path[len(c.parent)+1:])
		e := c.orphan(name)
		if stat := replies[len(replies)-1].Stat; d.blind() && stat.Czxid != d.parent.czxid {
			c.adopt(context.Background(), e, d.attempt, d.data, stat)
		}
		c.departAlone(e)
	case zkconn.Ambiguous:
		if d.blind() && c.isThere(d.id) {
			c.adopt(context.Background(), c.orphan(znode.Name{}), d.attempt, znode.Parent{}, nil)
		}
		c.quarantine.add(d.id, c.Clock.Mono())
		c.deleteByID(d.id)
	}
}

// listForOthers is a list for those whose entries an attempt has made whose reply was lost, and
// that nobody waits for any more; nil if it could not be made.
func (c *contender) listForOthers() []znode.Name {
	ctx, cancel := context.WithTimeout(context.Background(), c.patience(c.Terms))
	defer cancel()
	names, _, err := c.contenders(ctx, true)
	if err == nil && names == nil {
		names = []znode.Name{}
	}
	return names
}

// isThere reports whether an entry has that id.
func (c *contender) isThere(id string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), c.patience(c.Terms))
	defer cancel()
	names, _, err := c.contenders(ctx, true)
	return err == nil && znode.Find(names, id) >= 0
}

// deleteByID finds and deletes the entry with that id, if there is one.
func (c *contender) deleteByID(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), c.patience(c.Terms))
	defer cancel()
	// Whoever lists deletes the ids that are remembered, this one too.
	if _, _, err := c.contenders(ctx, true); err != nil {
		c.giveUp(err)
		c.Log.Warn().Err(err).Str("lock", c.Lock).Str("id", id).
			Msg("an entry may have been created that nobody waits for; should it be there, it is deleted when seen, or left to expire")
	}
}

// findByID looks for the entry of an attempt whose outcome is unknown: persistent
// nodes outlive the connection and the session they were made in. The list that it makes
// tells of other entries too; it is nil if it could not be made.
func (c *contender) findByID(ctx context.Context, id string) (path string, names []znode.Name, err error) {
	if names, _, err = c.contenders(ctx, true); err != nil {
		c.quarantine.add(id, c.Clock.Mono())
		c.background(func() { c.deleteByID(id) })
		return "", nil, zkconn.Final(err)
	}
	if names == nil {
		names = []znode.Name{}
	}
	path, err = c.locate(names, id)
	return path, names, err
}

// locate is where the entry with that id is, by a list that was made after its create had
// failed.
func (c *contender) locate(names []znode.Name, id string) (string, error) {
	if i := znode.Find(names, id); i >= 0 {
		return c.parent + "/" + names[i].Node, nil
	}
	c.quarantine.add(id, c.Clock.Mono())
	return "", zkconn.NotSent(errors.New("the entry was not created"))
}

// contenders lists the lock's entries in order, and tells of which parent: nil if it is not
// there. It changes nothing of the contender, and may be called beside it. Caught up asks
// the server to be as current as it can be.
func (c *contender) contenders(ctx context.Context, caughtUp bool) (names []znode.Name, parent *zk.Stat, err error) {
	list := c.Conn.Children
	if caughtUp {
		list = c.Conn.ChildrenSynced
	}
	children, stat, err := list(ctx, c.parent)
	if errors.Is(err, zk.ErrNoNode) {
		c.door.missed()
		return nil, nil, nil
	}
	if errors.Is(err, zk.ErrNoAuth) {
		return nil, nil, fmt.Errorf("%w: list %s: its ACL does not let us", zkconn.ErrDenied, c.parent)
	}
	if err != nil {
		return nil, nil, err
	}
	names = znode.Contenders(children)
	c.discardStrays(names...)
	if len(names) > 1 && names[len(names)-2].Overflowed() {
		return names, stat, c.sortByCreation(ctx, names)
	}
	return names, stat, nil
}

// discardStrays deletes in the background those of the entries that should not be there.
// They are in the way until then.
func (c *contender) discardStrays(names ...znode.Name) {
	for _, n := range c.quarantine.among(names) {
		c.Discard(c.orphan(n))
	}
}

// sortByCreation orders what the sequence alone no longer does. An entry that may
// not be read counts as the earliest: to wait for it is safe, whatever it is.
func (c *contender) sortByCreation(ctx context.Context, names []znode.Name) error {
	czxids := make(map[string]int64)
	for _, n := range names {
		if !n.Overflowed() {
			continue
		}
		switch at, err := c.Conn.Get(ctx, c.parent+"/"+n.Node); {
		case err == nil:
			czxids[n.Node] = at.Stat.Czxid
		case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth):
			return err
		}
	}
	slices.SortFunc(names, func(a, b znode.Name) int {
		return znode.CompareAt(a, czxids[a.Node], b, czxids[b.Node])
	})
	return nil
}
