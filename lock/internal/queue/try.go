package queue

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Try takes the lock if no contender is in the way; otherwise it fails with a [Blocked]. Its
// other errors are those of Acquire. It lists before it joins. So a try that fails because of a
// listed contender leaves nothing behind except, perhaps, the mark of the epoch.
func (q *Queue) Try(ctx context.Context, r Request) (*Entry, error) {
	return q.byItself(ctx, r, (*contender).try)
}

func (c *contender) try(ctx context.Context) (*Entry, error) {
	if err := c.looksFree(ctx); err != nil {
		return nil, err
	}
	return c.acquire(ctx)
}

// looksFree makes c a try, and returns a Blocked if a live contender is in the way. It syncs,
// because a server that lags behind might still show a contender that has left.
func (c *contender) looksFree(ctx context.Context) error {
	c.trying = true
	names, err := c.list(ctx, true)
	if err == nil {
		err = c.anyInTheWay(ctx, names)
	}
	if errors.As(err, new(*Blocked)) && slices.ContainsFunc(names, c.isOdd) {
		if _, wrong := c.readParent(ctx); wrong != nil { // such as ErrKind
			return wrong
		}
	}
	return err
}

// isOdd reports whether a contender's name is not one of the request's kind, as far as names tell: those
// of a mutex and of a semaphore are alike if no entry asks for several permits.
func (r *Request) isOdd(n znode.Name) bool {
	return n.Ours() && ((n.Role == znode.Exclusive) != (r.Role == znode.Exclusive) || n.Permits > 1 && r.Kind == znode.Mutex && r.Priority == 0)
}

// anyInTheWay returns a Blocked if one of the listed contenders is alive, and a new entry would have
// to wait for it.
func (v *view) anyInTheWay(ctx context.Context, names []znode.Name) error {
	if len(names) == 0 {
		return nil
	}
	if v.Kind == znode.Semaphore {
		return v.roomFor(ctx, names, znode.Name{})
	}
	names = append(slices.Clone(names), znode.Name{Role: v.Role})
	var ahead []znode.Name
	for self := len(names) - 1; ; self-- {
		i := znode.WaitsFor(names, self, v.rules(0))
		if i < 0 {
			break
		}
		ahead = append(ahead, names[i])
		names = slices.Delete(names, i, i+1)
	}
	for _, n := range slices.Backward(ahead) { // the holder comes first
		if err := v.inTheWay(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// barge takes the lock when it is free: it tries again each time that the last contender of the
// queue has changed. If e is not nil, it is an entry of this process whose turn has come: barge
// first tries to enter with e. The caller grants the entry.
func (c *contender) barge(ctx context.Context, e *Entry) (_ *Entry, err error) {
	if e != nil {
		if err = c.wait(ctx, e, position{admitted: true}); err == nil {
			return e, nil
		}
		if e.withdraw(); !errors.Is(err, lease.ErrGone) {
			return nil, err
		}
	}
	c.known = map[string]*sighting{}
	for {
		if err = c.looksFree(ctx); err == nil {
			if e, err = c.obtain(ctx, nil, position{}); err == nil {
				return e, nil
			}
		}
		var blocked *Blocked
		if !errors.As(err, &blocked) {
			return nil, err
		}
		c.blocker(blocked)
		if c.lock.believed().state != present { // fail if this contender cannot use the parent
			if _, err := c.readParent(ctx); err != nil {
				return nil, err
			}
		}
		wait := c.awaitFree
		if blocked.Path == c.parent { // the parent's counter is at its end, and no contender is left
			wait = func(ctx context.Context) error { return pause(ctx, pollEvery) }
		}
		if err := wait(ctx); err != nil {
			return nil, err
		}
	}
}

// awaitFree waits until the last living contender of the queue has changed, left or expired, or must be
// read again.
func (c *contender) awaitFree(ctx context.Context) error {
	c.waiting("", 0)
	names, err := c.list(ctx, false)
	if err != nil {
		return err
	}
	maps.DeleteFunc(c.known, func(node string, _ *sighting) bool { return znode.Find(names, node) < 0 })
	for _, n := range slices.Backward(names) { // the dead ones are purged when the lock is free
		s, err := c.assess(ctx, n, c.lastSeen(n), true, c.byClock)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			return pause(ctx, pollEvery)
		case err != nil:
			return err
		}
		if c.noteSeen(s); !s.expired {
			return await(ctx, s.changed, max(s.wait, c.warnOfForeign(s)))
		}
	}
	return nil
}

// roomFor returns a Blocked if live contenders leave no room for the request. own is the name of its
// entry; zero: it has none, and all listed contenders are ahead. roomFor reads readAtOnce random
// contenders, purges those that have expired, and reads more as long as it finds such ones. It takes
// all others for alive.
func (v *view) roomFor(ctx context.Context, names []znode.Name, own znode.Name) error {
	capacity, _, err := v.readCapacity(ctx, false)
	if err != nil {
		return err
	}
	for {
		if self := znode.Find(names, own.Node); self >= 0 {
			names = names[:self]
		}
		if znode.WaitsFor(append(slices.Clone(names), znode.Name{Permits: v.Permits}), len(names), v.rules(capacity)) < 0 {
			return nil
		}
		some := v.sample(names)
		seen := map[string]*sighting{}
		dead, err := v.expired(ctx, some, seen)
		if err != nil {
			return err
		}
		if len(dead) == 0 && len(seen) == len(some) {
			if len(some) == 0 {
				return &Blocked{Path: v.parent}
			}
			blocked := &Blocked{Path: v.path(some[0])}
			if e := &seen[some[0].Node].entry; e.Stat.Czxid != 0 {
				blocked.Entry = e
			}
			return blocked
		}
		if err := v.deleteEach(ctx, dead); purgeDenied(err) {
			return err
		} // after any other error the list shows which entries are left
		if names, err = v.list(ctx, false); err != nil {
			return err
		}
	}
}

// sample returns up to readAtOnce of the names, chosen at random.
func (v *view) sample(names []znode.Name) []znode.Name {
	if len(names) <= readAtOnce {
		return names
	}
	names = slices.Clone(names)
	rand.New(v.Random).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:readAtOnce]
}

// clearPermits makes room for the entry of a try. It returns nil if the entry is then admitted, and a
// Blocked if there is no room.
func (w *waiter) clearPermits(ctx context.Context) error {
	names, self, err := w.listOwn(ctx)
	if err != nil {
		return err
	}
	if self == 0 {
		return &Blocked{Path: w.parent} // the entry asks for more permits than there are
	}
	if err := w.roomFor(ctx, names, w.e.Name()); err != nil {
		return err
	}
	if err := w.listPosition(ctx); err != nil || w.p.admitted {
		return err
	}
	return &Blocked{Path: w.path(names[self-1])}
}
