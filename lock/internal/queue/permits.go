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

// The anchor's data has a semaphore's number of permits. The first contenders hold the semaphore, as
// long as the permits suffice. Any holder can be the next to release its permits. So a waiter counts
// the permits of all contenders ahead.
//
//   - The first waiter watches the anchor and each holder, or the children if there are more than
//     fewHolders holders. After each change it reads the number of permits, and counts again. It
//     must read the number after the change: a Resize lowers the number in the transaction that
//     deletes its own entry, which waited for the permits. A holder that no watch is on is read
//     again when its lease may be over.
//   - Any other waiter watches the entry before it, whose grant makes this waiter the first. It
//     also watches the target: the nearest entry such that the contenders from it to this waiter
//     together ask for more permits than there are. If the holders release in the order of the
//     queue, there is room when the target is deleted.

// fewHolders is the largest number of holders that a waiter watches, and that a try reads.
const fewHolders = 16

// holdersAhead has the holders ahead of the first waiter, and the number of permits.
type holdersAhead struct {
	names    []znode.Name         // the entries ahead; some may no longer exist
	seen     map[string]*sighting // the waiter's sightings; each has a watch
	again    time.Time            // time of the next read of all entries ahead
	capacity int32
	resized  <-chan zk.Event // watch on the number of permits
}

func (c *holdersAhead) drop(n znode.Name) {
	delete(c.seen, n.Node)
	c.names = slices.DeleteFunc(c.names, func(o znode.Name) bool { return o.Node == n.Node })
}

// positionByCount returns the position of a semaphore's entry by the reply to its create.
// contenders is the number of contenders then, each with at least one permit. The position is zero
// if the waiter has to list. A second contender always lists: a lone holder's record may lack the
// grant, and a waiter that does not know of the grant would not watch the number of permits.
func (d *draft) positionByCount(own znode.Name, contenders int32) position {
	capacity := d.parent.anchor.capacity()
	if contenders <= max(capacity, 2) || own.Seq <= capacity {
		return position{} // there may be room: list
	}
	return position{predecessor: znode.Predict(d.prefix, own.Seq-1), target: znode.Predict(d.prefix, own.Seq-capacity)}
}

// positionByList sets the waiter's position from a list, and w.ahead if the waiter is the first one.
// settled must be the result of a call of w.settled before the list.
func (w *waiter) positionByList(ctx context.Context, names []znode.Name, self int, settled func() bool) error {
	capacity, resized, err := w.readCapacity(ctx, true)
	if err != nil {
		return err
	}
	if !settled() { // the list may be older than the number of permits
		return w.settle(ctx)
	}
	w.ahead = nil
	w.countRoom(names, capacity)
	rules := w.rules(capacity)
	if w.p = positionOf(names, self, rules); w.p.admitted {
		return nil
	}
	first := self == 0 // then it needs more permits than there are, and waits for a Resize
	if !first {
		before := names[self-1]
		first = !before.Ours() || before.Node == w.grantedPredecessor || znode.WaitsFor(names, self-1, rules) < 0
	}
	if first {
		known := w.sightings
		w.sightings = map[string]*sighting{}
		for _, n := range names[:self] {
			if s := known[n.Node]; s != nil {
				w.sightings[n.Node] = s
			}
		}
		w.ahead = &holdersAhead{names: slices.Clone(names[:self]), seen: w.sightings, capacity: capacity, resized: resized}
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

// countRoom records, for this process's place, how many of its entries the permits suffice for, and
// how many fit beside the other listed entries.
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

// followPermits waits for a change that may make room. For the first waiter that is any change of
// the holders or the number of permits. For another waiter it is the grant or the end of the entry
// right before the waiter's, or the end of the target. An entry that is not Leased may hold permits
// without a record of the grant. So followPermits takes it for granted.
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
		return w.purgeAhead(ctx)
	case settled() && (s.entry.Granted() || !s.entry.Leased()) && w.grantedPredecessor != name.Node:
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
				return w.settle(ctx)
			case err != nil && !errors.Is(err, zk.ErrNoAuth): // if an ACL hides the target, watch only the predecessor
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
			return w.listHolders(ctx) // too early for a renewal: granted, so this waiter is the first
		case !again, !time.Now().Before(until):
			return nil
		}
	}
}

// listHolders handles a waiter that is probably the first one now: it sets the zero position, so
// that the caller lists. If there may be many holders, it lists at once, and waits for a change of
// the children.
func (w *waiter) listHolders(ctx context.Context) error {
	if p := w.lock.believed(); p.state == present && p.anchor.capacity() > fewHolders {
		return w.followChildren(ctx)
	}
	w.p = position{}
	return nil
}

// followHolders reads the changed holders ahead, or all holders if one may have expired. It admits
// the waiter if there is room, or purges the expired holders. Otherwise it waits for the next change.
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
	var dead []*sighting
	var events []<-chan zk.Event
	for _, n := range slices.Clone(c.names) {
		s := c.seen[n.Node]
		if all || s == nil || zkconn.Fired(s.changed) {
			var err error
			s, err = w.assess(ctx, n, s, true, w.prove)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				c.drop(n)
				reread = true // if the entry was that of a Resize, its deletion lowered the number
				continue
			case errors.Is(err, zk.ErrNoAuth):
				readAgainIn(pollEvery)
				continue
			case err != nil:
				return err
			case s.expired:
				dead = append(dead, s)
			}
			c.seen[n.Node] = s
			readAgainIn(s.wait)
		}
		events = append(events, s.changed)
	}
	if len(dead) > 0 {
		w.ahead = nil
		return w.purge(ctx, dead...)
	}
	if reread {
		var err error
		if c.capacity, c.resized, err = w.readCapacity(ctx, true); err != nil {
			return err
		}
	}
	if !settled() {
		return w.settle(ctx)
	}
	ahead := append(slices.Clone(c.names), w.e.Name())
	if znode.WaitsFor(ahead, len(ahead)-1, w.rules(c.capacity)) < 0 {
		w.p, w.ahead = position{admitted: true}, nil
		return nil
	}
	return w.awaitAny(ctx, append(events, c.resized), time.Until(c.again))
}

// followChildren lists the contenders, and waits until they change. A Resize changes them, too: it
// deletes its entry in the same transaction.
func (w *waiter) followChildren(ctx context.Context) error {
	settled := w.settled()
	children, _, changed, err := w.Conn.WatchChildren(ctx, w.parent)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	names := znode.Contenders(children)
	self := znode.Find(names, w.e.Name().Node)
	if self < 0 {
		w.p, w.ahead = position{}, nil // a list after a Sync shows whether this waiter's entry exists
		return nil
	}
	w.entriesAhead = self
	if err := w.positionByList(ctx, names, self, settled); err != nil || w.ahead == nil {
		return err
	}
	if err := w.purgeDue(ctx, w.ahead.names, changed); err != nil {
		return err
	}
	_, err = w.awaitChange(ctx, w.Terms.TTL/4, nil, changed)
	return err
}

// sample returns up to fewHolders of the names, chosen at random.
func (v *view) sample(names []znode.Name) []znode.Name {
	if len(names) <= fewHolders {
		return names
	}
	names = slices.Clone(names)
	rand.New(v.Random).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:fewHolders]
}

// awaitAny waits for any of the events, at most for the time most, or until this waiter's entry
// ends.
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
