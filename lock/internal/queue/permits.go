package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// The anchor's data has a semaphore's number of permits. The first contenders hold the semaphore, as
// long as the permits suffice. Any holder can be the next to release its permits. So a waiter counts
// the permits of all contenders ahead ([znode.WaitsFor]).
//
//   - The first waiter watches the children. After each change it lists, then reads the number of
//     permits, and counts. It must read the number after the list: a Resize lowers the number in the
//     transaction that deletes its own entry, which waited for the permits. While nothing changes, it
//     reads each holder when the holder's lease may be over.
//   - Any other waiter watches the entry before it, whose grant makes this waiter the first. It
//     also watches the target: the nearest entry such that the contenders from it to this waiter
//     together ask for more permits than there are. If the holders release in the order of the
//     queue, there is room when the target is deleted.

const (
	// readFirstAfter and readNextAfter are the times after which the first waiter reads the first
	// holder, and each next one, for the first time: most waiters are the first one only briefly, and
	// there may be thousands of holders.
	readFirstAfter = 100 * time.Millisecond
	readNextAfter  = 5 * time.Millisecond
)

// counted is the kind of semaphores.
type counted struct{}

func (counted) fit(r *Request) int { return int(max(1, r.Capacity/r.Permits)) }

func (counted) nextAhead(_ []znode.Name, self int) int { return self - 1 }

// free is for a try: it purges expired contenders as long as there is no room and purgeSome finds such ones.
func (counted) free(ctx context.Context, v *view, names []znode.Name) error {
	capacity, err := v.readCapacity(ctx)
	if err != nil {
		return err
	}
	for {
		if znode.WaitsFor(append(slices.Clone(names), znode.Name{Permits: v.Permits}), len(names), v.rules(capacity)) < 0 {
			return nil
		}
		if err = v.purgeSome(ctx, names); err != nil {
			return err
		}
		if names, err = v.list(ctx, false); err != nil {
			return err
		}
	}
}

// purgeSome makes room for a try: it reads sixteen random ones of the contenders ahead, and purges
// those that have expired. It returns a Blocked if all of them seem to be alive.
func (v *view) purgeSome(ctx context.Context, ahead []znode.Name) error {
	some := slices.Clone(ahead)
	rand.New(v.Random).Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	some = some[:min(len(some), zkconn.ReadAtOnce)]
	dead, err := v.purgeAmong(ctx, some)
	if err != nil && (len(dead) == 0 || purgeDenied(err)) {
		return err
	} // after any other error of the purge the next list shows which entries are left
	gone := slices.ContainsFunc(some, func(n znode.Name) bool { return v.known[n.Node] == nil })
	switch {
	case len(dead) > 0 || gone:
		return nil
	case len(some) == 0: // it asks for more permits than there are
		return &Blocked{Path: v.parent}
	}
	return v.blocked(v.known[some[0].Node])
}

// atJoin needs no list while there is room, if the number of contenders, which the reply shows, is that
// of the permits. It lists for a second contender of one permit: a lone holder's record may lack the
// grant, and a waiter that does not know of the grant would not watch the number of permits. It also
// lists while there may be room, and only the contenders' names tell how many permits each asks for.
func (counted) atJoin(d *draft, own znode.Name, contenders int32) position {
	capacity := d.parent.anchor.Capacity()
	if d.counts && contenders <= capacity {
		d.by.noteRoom(capacity-contenders, capacity)
		return position{admitted: true}
	}
	if contenders <= max(capacity, 2) || own.Seq <= capacity {
		return position{} // there may be room: list
	}
	return position{predecessor: znode.Predict(d.prefix, own.Seq-1), target: znode.Predict(d.prefix, own.Seq-capacity)}
}

func (counted) inList(ctx context.Context, w *waiter, names []znode.Name, self int, settled func() bool) error {
	capacity, err := w.readCapacity(ctx)
	if err != nil {
		return err
	}
	if !settled() { // the list may be older than the number of permits
		return w.settle(ctx)
	}
	w.countRoom(names, capacity)
	rules := w.rules(capacity)
	if w.p = positionOf(names, self, rules); w.p.admitted {
		return nil
	}
	if self == 0 { // it needs more permits than there are, and waits for a Resize
		w.isFirst(nil)
		return nil
	}
	before := names[self-1]
	if !before.Ours() || before.Node == w.grantedPredecessor || znode.WaitsFor(names, self-1, rules) < 0 {
		w.isFirst(names[:self])
		return nil
	}
	w.holders = nil
	asked := max(1, w.Permits)
	for i := self - 1; i > 0; i-- {
		if asked += max(1, names[i].Permits); asked > capacity {
			w.p.target = names[i].Node
			break
		}
	}
	return nil
}

// holders has what the first waiter knows of the holders ahead.
type holders struct {
	names []znode.Name
	since time.Duration // monotonic time since which the waiter is the first one
}

// isFirst records that the waiter is the first one, behind the holders of those names.
func (w *waiter) isFirst(names []znode.Name) {
	if w.holders == nil {
		if len(names) > 0 {
			w.blocker(&Blocked{Path: w.path(names[len(names)-1])})
		}
		w.holders = &holders{since: w.Clock.Mono()}
	}
	w.holders.names = names
}

// due returns the monotonic time at which the holder of that index must be read: when its lease may be
// over, by its own TTL. But a lease may have been shortened since the last read.
func (w *waiter) due(i int) time.Duration {
	if s := w.known[w.holders.names[i].Node]; s != nil {
		return min(s.due(), s.read+readAgainAfter)
	}
	return w.holders.since + readFirstAfter + time.Duration(i)*readNextAfter
}

// countRoom is noteRoom beside the listed contenders.
func (c *contender) countRoom(names []znode.Name, capacity int32) {
	free := capacity
	for _, n := range names {
		free -= max(1, n.Permits)
	}
	c.noteRoom(free, capacity)
}

// noteRoom records, for this process's place, how many of its entries the permits suffice for, and how
// many fit into the free permits.
func (c *contender) noteRoom(free, capacity int32) {
	if c.placed == nil {
		return
	}
	c.lock.mu.Lock()
	defer c.lock.mu.Unlock()
	c.placed.Room, c.placed.Free = int(max(1, capacity/c.Permits)), int(max(0, free/c.Permits))+1
	c.placed.goOn()
}

// follow waits for a change that may make room. For the first waiter that is any change of
// the holders or the number of permits. For another waiter it is the grant or the end of the entry
// right before the waiter's, or the end of the target. An entry that is not Leased may hold permits
// without a record of the grant. So follow takes it for granted.
func (counted) follow(ctx context.Context, w *waiter) error {
	switch {
	case w.trying: // a contender has joined since the try has found room
		w.p = position{}
		names, self, err := w.listOwn(ctx)
		if err != nil {
			return err
		}
		return w.purgeSome(ctx, names[:self])
	case w.holders != nil:
		return w.followHolders(ctx)
	}
	name, _ := znode.Parse(w.p.predecessor)
	settled := w.settled()
	s, err := w.assess(ctx, name, true, w.prove)
	if err != nil {
		return w.unread(ctx, name, settled(), err)
	}
	w.clear(s)
	switch {
	case s.expired:
		return w.purgeAhead(ctx)
	case settled() && (s.entry.Granted() || !s.entry.Leased()) && w.grantedPredecessor != name.Node:
		w.grantedPredecessor = name.Node
		return w.followHolders(ctx)
	}
	wait := s.wait
	if wait < 0 || wait > readAgainAfter {
		wait = readAgainAfter
	}
	for until := time.Now().Add(wait); ; { // a change of the target does not concern the predecessor
		var left <-chan zk.Event // watch on the target
		if target, ok := znode.Parse(w.p.target); ok && target.Node != name.Node {
			_, left, err = w.Conn.Watch(ctx, w.path(target))
			if err != nil && !errors.Is(err, zk.ErrNoAuth) { // if an ACL hides the target, watch only the predecessor
				return w.unread(ctx, target, settled(), err)
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
			return w.followHolders(ctx) // too early for a renewal: granted, so this waiter is the first
		case !again, !time.Now().Before(until):
			return nil
		}
	}
}

// followHolders is for a waiter that is the first one, or probably so. It lists, and watches the
// children. If this waiter is the first one, and there is no room, it waits for a change. Meanwhile it
// reads the holders whose leases may be over, and purges those that have expired.
func (w *waiter) followHolders(ctx context.Context) error {
	settled := w.settled()
	children, stat, changed, err := w.Conn.WatchChildren(ctx, w.parent)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	names := w.contenders(children, stat)
	self := znode.Find(names, w.e.Name().Node)
	if self < 0 {
		w.p, w.holders = position{}, nil // a list after a Sync shows whether this waiter's entry exists
		return nil
	}
	w.entriesAhead = self
	if err := (counted{}).inList(ctx, w, names, self, settled); err != nil || w.holders == nil || w.p.admitted {
		return err
	}
	for again := true; again && !zkconn.Fired(changed); {
		purged, err := w.purgeDue(ctx, changed)
		if err != nil || purged {
			return err
		}
		if again, err = w.awaitDue(ctx, changed); err != nil {
			return err
		}
	}
	return nil
}

// awaitDue waits for a change of the children, or until a holder must be read. again: the children
// have not changed.
func (w *waiter) awaitDue(ctx context.Context, changed <-chan zk.Event) (again bool, err error) {
	next := w.Clock.Mono() + readAgainAfter
	for i := range w.holders.names {
		next = min(next, w.due(i))
	}
	again, err = w.awaitChange(ctx, max(0, next-w.Clock.Mono()), changed, nil)
	w.p.predecessorGone = false
	return again, err
}

// purgeDue reads the holders that must be read now, purges those that have expired, and reports
// whether there were any. It stops early when the contenders change, because there may be room: then
// the waiter counts first. After an outage it only renews the waiter's own entry.
func (w *waiter) purgeDue(ctx context.Context, changed <-chan zk.Event) (purged bool, err error) {
	now := w.Clock.Mono()
	var due []znode.Name
	for i, n := range w.holders.names {
		if w.due(i) <= now {
			due = append(due, n)
		}
	}
	if len(due) > 0 && !w.e.WroteSince(w.Conn.LastOutage()) {
		return true, w.e.Refresh(ctx)
	}
	for some := range slices.Chunk(due, zkconn.ReadAtOnce) {
		dead, err := w.purgeAmong(ctx, some)
		if err != nil { // some may have been deleted
			return true, w.notPurged(ctx, dead, err, changed)
		}
		if purged = purged || len(dead) > 0; zkconn.Fired(changed) {
			break
		}
	}
	w.checkHolders()
	return purged, nil
}
