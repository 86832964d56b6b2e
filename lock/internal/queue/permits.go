package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// maxAhead is how many entries a grant tells at most that may still be ahead.
const maxAhead = 16

// crowd is what the first one who waits for permits knows of those ahead of it, all of
// whom hold some: it watches each of them.
type crowd struct {
	names []znode.Name // who may be ahead still: nobody else is
	seen  map[string]*observation
	read  bool            // the parent was read since one of them has gone
	grows <-chan zk.Event // the change of the parent that somebody waits to report
}

// crowdOf returns what is known of those names, keeping what was seen of them before.
func crowdOf(names []znode.Name, before *crowd) *crowd {
	c := &crowd{names: slices.Clone(names), seen: map[string]*observation{}}
	for _, n := range names {
		if before != nil && before.seen[n.Node] != nil {
			c.seen[n.Node] = before.seen[n.Node]
		}
	}
	return c
}

// drop takes the news that one of them has gone.
func (c *crowd) drop(i int) {
	delete(c.seen, c.names[i].Node)
	c.names = slices.Delete(c.names, i, i+1)
	c.read = false
}

// heard takes the report that a node has changed, "" is the parent: it is to be read again.
// Nobody waits any more for the watch that was reported, which go-zookeeper may close only a
// moment later: so until then it still looks armed, and is to be reported once more.
func (c *crowd) heard(node string) {
	if node == "" {
		c.read, c.grows = false, nil
	} else if s := c.seen[node]; s != nil {
		s.changed, s.reported = nil, nil
	}
}

// listen has somebody wait to report a change, unless that is done already.
func listen(reported *<-chan zk.Event, node string, changed <-chan zk.Event, report func(string, <-chan zk.Event)) {
	if *reported != changed {
		*reported = changed
		report(node, changed)
	}
}

// nodes are the names as a grant tells them; nil if they are too many.
func (c *crowd) nodes() []string {
	if len(c.names) > maxAhead {
		return nil
	}
	nodes := make([]string, 0, len(c.names))
	for _, n := range c.names {
		nodes = append(nodes, n.Node)
	}
	return nodes
}

// place notes where the contender at self stands by a list.
func (w *waiter) place(names []znode.Name, self int) position {
	p := positionOf(names, self, w.rules())
	if w.Kind != znode.Semaphore {
		return p
	}
	// Whose predecessor is in is the first one who waits. Of another library's nobody
	// is told when it comes in.
	first := self == 0 || !names[self-1].Ours() || names[self-1].Node == w.granted || znode.Admit(names, self-1, w.rules()) < 0
	if w.ahead = nil; first || p.admitted {
		w.ahead = crowdOf(names[:self], w.before)
		w.before = w.ahead
	}
	if p.admitted {
		w.e.TellAhead(w.ahead.nodes())
	}
	return p
}

// learnCrowd takes what the entry right ahead tells: that it was granted, and who may have
// been ahead of it then. Nobody comes to stand ahead of it later, so that stays true.
func (w *waiter) learnCrowd() {
	ahead := &w.seen.entry
	if w.Kind != znode.Semaphore || !ahead.Granted() {
		return
	}
	w.granted = ahead.Node
	var names []znode.Name
	for _, node := range ahead.Record.Ahead {
		n, ok := znode.Parse(node)
		if !ok {
			names = nil
			break
		}
		names = append(names, n)
	}
	if ahead.Record.Ahead == nil || len(names) < len(ahead.Record.Ahead) {
		w.p = position{} // a list tells
		return
	}
	w.ahead = crowdOf(append(names, ahead.Name), w.before)
	w.before = w.ahead
	w.ahead.seen[ahead.Node] = w.seen
}

// learnCapacity has the number of permits be as new as the list just made.
func (c *contender) learnCapacity(ctx context.Context) error {
	if c.Kind != znode.Semaphore {
		return nil
	}
	if f, _ := c.door.look(); c.listed != nil && f.exists && f.czxid == c.listed.Czxid && f.version == c.listed.Version && c.fits(f.data) {
		c.learn(f.data.Capacity())
		return nil
	}
	return c.readParent(ctx)
}

// followCrowd waits until there is room, or somebody ahead has expired and was purged.
func (w *waiter) followCrowd(ctx context.Context) error {
	hits, stop := make(chan string), make(chan struct{})
	defer close(stop)
	report := func(node string, changed <-chan zk.Event) {
		go func() {
			select {
			case <-changed:
				select {
				case hits <- node:
				case <-stop:
				}
			case <-stop:
			}
		}()
	}
	for node := range w.ahead.seen {
		w.ahead.heard(node) // watched anew: what was reported to an earlier call is lost
	}
	w.ahead.heard("")
	for {
		if again, err := w.lookAhead(ctx, report); again || err != nil {
			return err
		}
		own, err := w.e.Watch()
		if err != nil {
			return err
		}
		wait, err := w.judgeAhead(ctx)
		if wait == 0 || err != nil {
			return err
		}
		timeout, stopAlarm := alarm(wait)
		select {
		case node := <-hits:
			w.ahead.heard(node)
		case <-timeout:
			for _, s := range w.ahead.seen { // a change can be lost over a reconnect
				s.changed = nil
			}
		case <-own:
		case <-ctx.Done():
			err = zkconn.ContextError(ctx)
		}
		if stopAlarm(); err != nil {
			return err
		}
	}
}

// lookAhead sees who is still ahead, and then how many permits there are: that number is
// lowered only in a transaction in which an entry goes that had waited for that, so who
// reads it after what was ahead of it has gone does not miss it. It reports whether the
// position has changed.
func (w *waiter) lookAhead(ctx context.Context, report func(string, <-chan zk.Event)) (decided bool, err error) {
	settled := w.sameSessionSince()
	for i := len(w.ahead.names) - 1; i >= 0; i-- {
		name := w.ahead.names[i]
		s := w.ahead.seen[name.Node]
		if s != nil && s.changed != nil {
			continue
		}
		n, changed, err := w.Conn.Watch(ctx, w.parent+"/"+name.Node)
		switch {
		case errors.Is(err, zk.ErrNoNode) && settled():
			w.ahead.drop(i)
			continue
		case errors.Is(err, zk.ErrNoNode):
			w.p = position{}
			return true, nil
		case errors.Is(err, zk.ErrNoAuth):
			w.p.predecessor = name.Node
			return true, w.predecessorUnread(ctx, false, err)
		case err != nil:
			return true, err
		}
		s = w.saw(znode.ReadEntry(name, n.Data, znode.Stat(*n.Stat)), changed)
		listen(&s.reported, name.Node, changed, report)
	}
	if w.ahead.read {
		return false, nil
	}
	changed, err := w.watchCapacity(ctx)
	if err != nil {
		return true, err
	}
	if changed == nil || !settled() {
		w.p = position{}
		return true, nil
	}
	if w.overtaken() {
		return true, errAged
	}
	w.ahead.read = true
	listen(&w.ahead.grows, "", changed, report)
	w.p.admitted = znode.Admit(append(slices.Clone(w.ahead.names), w.e.Name()), len(w.ahead.names), w.rules()) < 0
	if w.p.admitted {
		w.e.TellAhead(w.ahead.nodes())
	}
	return w.p.admitted, nil
}

// saw notes one of those ahead as it was just read.
func (w *waiter) saw(entry znode.Entry, changed <-chan zk.Event) *observation {
	before := w.ahead.seen[entry.Node]
	s := w.observed(before, entry)
	if s.changed = changed; before != nil {
		s.reported = before.reported
	}
	w.ahead.seen[entry.Node] = s
	w.lastBlocker = &Blocked{Path: w.parent + "/" + entry.Node, Entry: &entry}
	return s
}

// watchCapacity reads how many permits there are, and watches for a change; nil if the
// parent is not there.
func (c *contender) watchCapacity(ctx context.Context) (<-chan zk.Event, error) {
	n, changed, err := c.Conn.Watch(ctx, c.parent)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := c.check(n)
	if err != nil {
		return nil, err
	}
	c.learn(data.Capacity())
	return changed, nil
}

// learn takes how many permits there are now. Those who ride may have as many seats.
func (c *contender) learn(capacity int32) {
	c.capacity = capacity
	if c.Kind == znode.Semaphore {
		c.door.rides.fit(capacity)
	}
}

// heed has those who ride for permits hear of more: what is passed to them comes without a
// look at the parent. Once somebody has waited for a while one looks for all, as long as
// anybody waits; p.mu is held.
func (c *contender) heed(p *party) {
	if c.Kind != znode.Semaphore || p.heeding {
		return
	}
	p.heeding = true
	one := *c // whoever waits goes on with its own
	c.background(func() { one.heedWhileAnybodyWaits(p) })
}

func (c *contender) heedWhileAnybodyWaits(p *party) {
	var changed <-chan zk.Event
	var looked time.Duration
	for pause(c.Closing, pollEvery) == nil && p.heeds() {
		select {
		case <-changed:
			changed = nil
		default:
		}
		now := c.Clock.Mono()
		if changed != nil && now-looked <= c.Terms.TTL { // a change can be lost over a reconnect
			continue
		}
		var err error
		if changed, err = c.watchCapacity(c.Closing); err != nil {
			c.Log.Debug().Err(err).Str("lock", c.Lock).Msg("it is not known whether there are more permits by now; it is looked again in a second")
		}
		looked = now
	}
}

// judgeAhead purges who has expired of those ahead, or says when to look again: for ever
// if negative. 0 says that the position has changed.
func (w *waiter) judgeAhead(ctx context.Context) (wait time.Duration, err error) {
	wait = -1
	for _, n := range w.ahead.names {
		s, knew := w.ahead.seen[n.Node], w.Clock.Now()
		verdict, after := w.judge(s, knew)
		switch {
		case verdict == znode.Live && after >= 0 && (wait < 0 || after < wait):
			wait = after
		case verdict == znode.Live:
		case verdict == znode.Unproven:
			return time.Millisecond, w.prove(ctx, knew, s.entry.Stat.Mzxid)
		case !w.e.WroteSince(w.Conn.LastOutage()):
			return time.Millisecond, w.e.Refresh(ctx)
		default:
			w.p, err = w.purge(ctx)
			return 0, err
		}
	}
	return wait, nil
}

// purgeCrowd deletes those of the contenders ahead of the one at self that have expired,
// as purgeRun does; but that one lives says nothing of those before it.
func (w *waiter) purgeCrowd(ctx context.Context, names []znode.Name, self int, settled func() bool) ([]znode.Name, int, error) {
	var dead []znode.Entry
	for i := self - 1; i >= 0 && len(dead) < purgeBatch; i-- {
		n, err := w.Conn.Get(ctx, w.parent+"/"+names[i].Node)
		switch {
		case errors.Is(err, zk.ErrNoNode) && !settled():
			return nil, 0, errUnsettled
		case errors.Is(err, zk.ErrNoNode):
		case err != nil: // whoever follows that entry meets the error too
			continue
		default:
			entry := znode.ReadEntry(names[i], n.Data, znode.Stat(*n.Stat))
			if !w.hasExpired(&entry) {
				continue
			}
			dead = append(dead, entry)
		}
		names, self = slices.Delete(names, i, i+1), self-1
	}
	return names, self, w.purgeAll(ctx, dead)
}

// roomFor returns a Blocked if so many of the contenders live that there is no room for
// one more.
func (c *contender) roomFor(ctx context.Context, names []znode.Name) error {
	own := znode.Name{Permits: c.Permits}
	if err := c.learnCapacity(ctx); err != nil || znode.Admit(append(slices.Clone(names), own), len(names), c.rules()) < 0 {
		return err
	}
	var living []znode.Name
	for _, n := range names {
		_, err := c.blockedBy(ctx, n)
		var blocked *Blocked
		if err != nil && !errors.As(err, &blocked) {
			return err
		}
		if err == nil {
			continue
		}
		living = append(living, n)
		if znode.Admit(append(slices.Clone(living), own), len(living), c.rules()) >= 0 {
			return blocked
		}
	}
	return nil
}
