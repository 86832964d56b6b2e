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

// A semaphore has as many permits as stand in the data of its anchor. Contenders are in, from
// the first on, that together ask for no more. Any holder can be the next to leave, so that
// one has gone proves nothing: the permits of those ahead are counted.
//
//   - The first waiter watches each holder, or the children if the holders are many, and the
//     anchor. It counts again after each change, by a number of permits that it reads after
//     that: fewer permits there are only by a transaction in which an entry goes that had
//     waited for them.
//   - Any other waiter watches the entry before it, whose grant says that we are first; and
//     the one that stands as many permits ahead as there are: when the holders leave in the
//     order in which they came, there is room when that has gone.

// fewHolders is up to how many holders are read, or watched, one by one.
const fewHolders = 16

// holdersAhead are the holders ahead of the first waiter, and the number of permits.
type holdersAhead struct {
	names    []znode.Name         // that may be there still: no other is ahead
	seen     map[string]*sighting // each with a watch
	again    time.Time            // when all are to be read again
	capacity int32
	resized  <-chan zk.Event // of a watch on the number
}

func (c *holdersAhead) drop(n znode.Name) {
	delete(c.seen, n.Node)
	c.names = slices.DeleteFunc(c.names, func(o znode.Name) bool { return o.Node == n.Node })
}

// placeByCount is the place of an entry of a semaphore by the reply to its create: so many
// contenders were there, each with a permit at least.
func (c *contender) placeByCount(d *draft, own znode.Name, contenders int32) position {
	capacity := d.parent.anchor.capacity()
	if contenders <= capacity || own.Seq <= capacity {
		return position{} // there may be room: a list tells
	}
	return position{predecessor: znode.Predict(d.prefix, own.Seq-1), target: znode.Predict(d.prefix, own.Seq-capacity)}
}

// placePermits notes the place of the entry by a list that was made just now.
func (w *waiter) placePermits(ctx context.Context, names []znode.Name, self int, settled func() bool) error {
	capacity, resized, err := w.readCapacity(ctx, true)
	if err != nil {
		return err
	}
	if !settled() { // the list may be older than the number
		return w.unsettled(ctx)
	}
	w.ahead = nil
	w.countRoom(names, capacity)
	rules := w.rules(capacity)
	if w.p = positionOf(names, self, rules); w.p.admitted {
		return nil
	}
	first := self == 0 // it asks for more permits than there are, and waits for a raise
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

// countRoom tells the place of this process how many entries are of use.
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

// followPermits waits for a change that may make room: of the first waiter, any; of another,
// that the entry before it was granted or has gone, or that the one ahead by as many permits
// as there are has gone.
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
		w.grantedPredecessor, w.p = name.Node, position{} // we are the first that waits: a list tells the holders
		return nil
	}
	events := []<-chan zk.Event{s.changed}
	if target, ok := znode.Parse(w.p.target); ok && target.Node != name.Node {
		_, changed, err := w.Conn.Watch(ctx, w.path(target))
		switch {
		case errors.Is(err, zk.ErrNoNode) && settled():
			w.p = position{}
			return nil
		case errors.Is(err, zk.ErrNoNode):
			return w.unsettled(ctx)
		case err != nil && !errors.Is(err, zk.ErrNoAuth): // the predecessor tells later
			return err
		}
		events = append(events, changed)
	}
	return w.awaitAny(ctx, events, s.wait)
}

// followHolders waits until there is room, or a holder has expired and was purged. It reads again
// what has changed, and all when one of them may have expired.
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
				reread = true // what has gone may have lowered the number
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

// followChildren waits for a change of the children, or of the number of permits.
func (w *waiter) followChildren(ctx context.Context) error {
	_, raised, err := w.readCapacity(ctx, true)
	if err != nil {
		return err
	}
	before := len(w.ahead.names)
	children, _, changed, err := w.Conn.WatchChildren(ctx, w.parent)
	w.p, w.ahead = position{}, nil // a list tells the place
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	names := znode.Contenders(children)
	if self := znode.Find(names, w.e.Name().Node); self < before {
		return nil
	}
	if err := w.purgeSome(ctx, names[:before]); err != nil {
		return err
	}
	return w.awaitAny(ctx, []<-chan zk.Event{changed, raised}, w.Terms.TTL/4)
}

// purgeSome looks at a few of many holders, drawn at random, and purges those that have
// expired.
func (w *waiter) purgeSome(ctx context.Context, names []znode.Name) error {
	if w.purgeAt.IsZero() {
		w.purgeAt = time.Now() // most waiters are first for a moment only
	}
	if time.Since(w.purgeAt) < w.Terms.TTL/4 {
		return nil
	}
	w.purgeAt = time.Now()
	if !w.e.WroteSince(w.Conn.LastOutage()) {
		return w.e.Refresh(ctx)
	}
	if err := w.purgeFrom(ctx, w.sample(names)); err != nil {
		return w.notPurged(ctx, err)
	}
	return nil
}

// sample draws a few of the names.
func (q *Queue) sample(names []znode.Name) []znode.Name {
	if len(names) <= fewHolders {
		return names
	}
	names = slices.Clone(names)
	rand.New(q.Random).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:fewHolders]
}

// awaitAny waits for any of the events, for at most that long, or until the own entry ends.
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
