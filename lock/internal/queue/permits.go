package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// The anchor's data has a semaphore's number of permits. The first contenders are in, as long as
// the permits suffice. Any holder can be the next to leave, so one that has gone proves nothing:
// a waiter counts the permits of all contenders ahead.
//
//   - The first waiter watches the anchor and each holder, or the children if there are many
//     holders. After each change it reads the number of permits, and counts again. It must read
//     the number afterwards: a Resize lowers it in the transaction that deletes the entry that
//     had waited for those permits.
//   - Any other waiter watches the entry before it, whose grant makes this waiter the first. It
//     also watches the entry that is as many permits ahead as there are: if the holders leave in
//     the order in which they came, there is room when that entry has gone.

// fewHolders is the largest number of holders that a client reads or watches one by one.
const fewHolders = 16

// holdersAhead has the holders ahead of the first waiter, and the number of permits.
type holdersAhead struct {
	names    []znode.Name         // the entries ahead, some of which may have gone
	seen     map[string]*sighting // by name; each has a watch
	again    time.Time            // time of the next read of all of them
	capacity int32
	resized  <-chan zk.Event // watch on the number of permits
}

func (c *holdersAhead) drop(n znode.Name) {
	delete(c.seen, n.Node)
	c.names = slices.DeleteFunc(c.names, func(o znode.Name) bool { return o.Node == n.Node })
}

// placeByCount returns the position of a semaphore's entry by the reply to its create. There were
// this many contenders, each with at least one permit. A second contender always lists: the record
// of a lone holder need not show the grant, and a waiter that did not know of it would not watch
// the number of permits.
func (c *contender) placeByCount(d *draft, own znode.Name, contenders int32) position {
	capacity := d.parent.anchor.capacity()
	if contenders <= max(capacity, 2) || own.Seq <= capacity {
		return position{} // there may be room: a list tells
	}
	return position{predecessor: znode.Predict(d.prefix, own.Seq-1), target: znode.Predict(d.prefix, own.Seq-capacity)}
}

// placePermits sets the position of the entry by a list that was just read.
func (w *waiter) placePermits(ctx context.Context, names []znode.Name, self int, settled func() bool) error {
	capacity, resized, err := w.readCapacity(ctx, true)
	if err != nil {
		return err
	}
	if !settled() { // the list may be older than the number of permits
		return w.unsettled(ctx)
	}
	w.ahead = nil
	w.countRoom(names, capacity)
	rules := w.rules(capacity)
	if w.p = positionOf(names, self, rules); w.p.admitted {
		return nil
	}
	first := self == 0 // it asks for more permits than there are, and waits for a Resize
	if !first {
		before := names[self-1]
		first = !before.Ours() || before.Node == w.grantedPredecessor || znode.WaitsFor(names, self-1, rules) < 0
	}
	if first {
		w.ahead = &holdersAhead{names: slices.Clone(names[:self]), seen: map[string]*sighting{}, capacity: capacity, resized: resized}
		return nil
	}
	asked := max(1, w.Permits)
	for i := self - 1; i > 0; i-- {
		if asked += max(1, names[i].Permits); asked > capacity {
			w.p.target = names[i].Node
			break
		}
	}
	return nil
}

// countRoom tells the place of this process how many entries it can use.
func (c *contender) countRoom(names []znode.Name, capacity int32) {
	if c.placed == nil {
		return
	}
	free := capacity
	for _, n := range names {
		free -= max(1, n.Permits)
	}
	c.lock.mu.Lock()
	defer c.lock.mu.Unlock()
	c.placed.Room, c.placed.Free = int(max(1, capacity/c.Permits)), int(max(0, free/c.Permits))+1
	c.placed.goOn()
}

// followPermits waits for a change that may make room. For the first waiter that is any change.
// For another waiter it is the grant or the end of the entry before it, or the end of the target
// entry.
func (w *waiter) followPermits(ctx context.Context) error {
	switch {
	case w.trying:
		return w.clearPermits(ctx)
	case w.ahead != nil && len(w.ahead.names) > fewHolders:
		return w.followChildren(ctx)
	case w.ahead != nil:
		return w.followHolders(ctx)
	}
	name, _ := znode.Parse(w.p.predecessor)
	settled := w.settled()
	s, err := w.assess(ctx, name, w.seen, true, w.prove)
	if errors.Is(err, zk.ErrNoNode) && settled() {
		w.p = position{}
		return nil
	}
	if err != nil {
		return w.unread(ctx, name, false, err)
	}
	w.seen = s
	switch {
	case s.expired:
		return w.purge(ctx)
	case settled() && s.entry.Granted() && w.grantedPredecessor != name.Node:
		w.grantedPredecessor = name.Node
		return w.listHolders(ctx)
	}
	wait := s.wait
	if wait < 0 || wait > readAgainAfter {
		wait = readAgainAfter
	}
	for until := time.Now().Add(wait); ; { // a change of the target does not concern the predecessor
		var left <-chan zk.Event // watch on the target
		if target, ok := znode.Parse(w.p.target); ok && target.Node != name.Node {
			_, left, err = w.Conn.Watch(ctx, w.path(target))
			switch {
			case errors.Is(err, zk.ErrNoNode) && settled():
				w.p = position{}
				return nil
			case errors.Is(err, zk.ErrNoNode):
				return w.unsettled(ctx)
			case err != nil && !errors.Is(err, zk.ErrNoAuth): // if an ACL hides it, the predecessor must do
				return err
			}
		}
		again, err := w.awaitChange(ctx, max(0, time.Until(until)), s.changed, left)
		switch {
		case err != nil:
			return err
		case w.p.targetGone || w.p.predecessorGone: // there may be room: list
			w.p = position{}
			return nil
		case !again && w.Clock.Mono()-s.since < min(s.entry.TTL(), time.Minute)/4:
			return w.listHolders(ctx) // too early for a renewal: granted, which makes us the first waiter
		case !again, !time.Now().Before(until):
			return nil
		}
	}
}

// listHolders lists when we are probably the first waiter. If there may be many holders, it waits
// for a change of the children after the same list.
func (w *waiter) listHolders(ctx context.Context) error {
	if p := w.lock.believed(); p.state == present && p.anchor.capacity() > fewHolders {
		return w.followChildren(ctx)
	}
	w.p = position{}
	return nil
}

// followHolders waits until there is room, or until it has purged an expired holder. It reads
// changed holders again, and reads all when one of them may have expired.
func (w *waiter) followHolders(ctx context.Context) error {
	settled, c, now := w.settled(), w.ahead, time.Now()
	all := !now.Before(c.again)
	reread := zkconn.Fired(c.resized) || all && !c.again.IsZero()
	if all {
		c.again = now.Add(readAgainAfter)
	}
	readAgainIn := func(d time.Duration) {
		if at := now.Add(d); d >= 0 && at.Before(c.again) {
			c.again = at
		}
	}
	var events []<-chan zk.Event
	for _, n := range slices.Clone(c.names) {
		s := c.seen[n.Node]
		if all || s == nil || zkconn.Fired(s.changed) {
			var err error
			s, err = w.assess(ctx, n, s, true, w.prove)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				c.drop(n)
				reread = true // if it belonged to a Resize, its deletion lowered the number
				continue
			case errors.Is(err, zk.ErrNoAuth):
				readAgainIn(pollEvery)
				continue
			case err != nil:
				return err
			case s.expired:
				w.ahead = nil
				return w.purgeOne(ctx, s)
			}
			c.seen[n.Node] = s
			readAgainIn(s.wait)
		}
		events = append(events, s.changed)
	}
	if reread {
		var err error
		if c.capacity, c.resized, err = w.readCapacity(ctx, true); err != nil {
			return err
		}
	}
	if !settled() {
		return w.unsettled(ctx)
	}
	ahead := append(slices.Clone(c.names), w.e.Name())
	if znode.WaitsFor(ahead, len(ahead)-1, w.rules(c.capacity)) < 0 {
		w.p, w.ahead = position{admitted: true}, nil
		return nil
	}
	return w.awaitAny(ctx, append(events, c.resized), time.Until(c.again))
}

// followChildren lists the contenders, and waits until they change. A resize changes them too: its
// entry goes in the same transaction.
func (w *waiter) followChildren(ctx context.Context) error {
	settled := w.settled()
	children, _, changed, err := w.Conn.WatchChildren(ctx, w.parent)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	names := znode.Contenders(children)
	self := znode.Find(names, w.e.Name().Node)
	if self < 0 {
		w.p, w.ahead = position{}, nil // a list after a Sync tells whether our entry has gone
		return nil
	}
	w.entriesAhead = self
	if err := w.placePermits(ctx, names, self, settled); err != nil || w.ahead == nil {
		return err
	}
	if err := w.purgeSome(ctx, w.ahead.names); err != nil {
		return err
	}
	_, err = w.awaitChange(ctx, w.Terms.TTL/4, nil, changed)
	return err
}

// purgeSome reads a few of many holders, chosen at random, and purges the expired ones.
func (w *waiter) purgeSome(ctx context.Context, names []znode.Name) error {
	if w.purgeAt.IsZero() {
		w.purgeAt = time.Now() // not at once: most waiters are first only for a moment
	}
	if time.Since(w.purgeAt) < w.Terms.TTL/4 {
		return nil
	}
	w.purgeAt = time.Now()
	if !w.e.WroteSince(w.Conn.LastOutage()) {
		return w.e.Refresh(ctx)
	}
	if err := w.purgeAmong(ctx, w.sample(names)); err != nil {
		return w.notPurged(ctx, err)
	}
	return nil
}

// sample returns a few of the names, chosen at random.
func (q *Queue) sample(names []znode.Name) []znode.Name {
	if len(names) <= fewHolders {
		return names
	}
	names = slices.Clone(names)
	rand.New(q.Random).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:fewHolders]
}

// awaitAny waits for any of the events, for at most that long, or until our own entry ends.
func (w *waiter) awaitAny(ctx context.Context, events []<-chan zk.Event, most time.Duration) error {
	any := make(chan zk.Event)
	fire := sync.OnceFunc(func() { close(any) })
	stop := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	for _, changed := range events {
		if changed == nil {
			continue
		}
		all.Go(func() {
			select {
			case <-changed:
				fire()
			case <-stop:
			}
		})
	}
	_, err := w.awaitChange(ctx, most, any, nil)
	w.p.predecessorGone = false
	return err
}
