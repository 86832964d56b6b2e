package integration_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
)

// longTTL is the TTL in tests with outages. A hold that was renewed at most a third of the TTL ago
// survives an outage of almost two thirds of the TTL.
const longTTL = 30 * time.Second

// longSession is the session timeout of clients that must find expired entries. A client does not
// judge entries just after its own outage, and short sessions expire often on a busy machine. A
// killed server closes its connections, so its clients notice the end at once.
const longSession = 10 * time.Second

// crowd has many locks, each with a live holder and a waiter. No fault may end a hold or a wait.
type crowd struct {
	*bench
	locks   []*crowdLock
	waiters []*lock.Client
	waits   sync.WaitGroup
}

type crowdLock struct {
	name string
	room room
	hold *lock.Hold
	out  func() // leaves the room; called as soon as the hold's context ends
}

// crowd creates a crowd of 60 locks, whose clients have the options.
func (b *bench) crowd(opts ...lock.Option) *crowd {
	b.Helper()
	const size, clients = 60, 3 // number of locks, and of clients that hold, and of clients that wait
	c := &crowd{bench: b}
	opts = append([]lock.Option{lock.WithTTL(longTTL), lock.WithSessionTimeout(longSession)}, opts...)
	var holders []*lock.Client
	for range clients {
		holders, c.waiters = append(holders, b.client(opts...)), append(c.waiters, b.client(opts...))
	}
	b.Cleanup(c.waits.Wait)
	for i := range size {
		l := &crowdLock{name: fmt.Sprintf("crowd%d", i)}
		l.hold = b.lock(holders[i%clients], l.name)
		l.out = sync.OnceFunc(l.room.enter(l.hold.Token()))
		context.AfterFunc(l.hold.Context(), l.out)
		c.locks = append(c.locks, l)
		c.waits.Go(func() { c.wait(c.waiters[i%clients], l) })
	}
	b.eventually("all waiters queue", func() bool {
		queued := 0
		for _, w := range c.waiters {
			queued += w.Stats().Waiters
		}
		return queued == size
	})
	return c
}

// wait waits for the lock, and unlocks it at once.
func (c *crowd) wait(w *lock.Client, l *crowdLock) {
	h, err := w.Mutex(l.name).Lock(c.ctx)
	if err == nil {
		l.room.enter(h.Token())()
		err = h.Unlock()
	}
	if err != nil && c.ctx.Err() == nil && !c.Failed() { // report only the first failure
		c.Errorf("waiter for %s: %v", l.name, err)
	}
}

// unhurt ends the test if a hold was lost, an entry was deleted or created again, or two clients
// were in a room at once.
func (c *crowd) unhurt(after string) {
	c.Helper()
	var why error // the first loss
	lost, deleted, doubles, requeued := 0, 0, 0, uint64(0)
	for _, l := range c.locks {
		if l.hold.Remaining() == 0 {
			lost++
			if why == nil {
				why = l.hold.Err()
			}
		}
		if !c.exists(l.hold.EntryPath()) {
			deleted++
		}
		doubles += int(l.room.doubles.Load())
	}
	for _, w := range c.waiters {
		requeued += w.Stats().Requeued
	}
	if lost > 0 || deleted > 0 || doubles > 0 || requeued > 0 {
		c.Fatalf("after %s: of %d locks %d were lost, %d holders' entries and %d waiters' were deleted, and %d times a second one was in; the first loss: %v",
			after, len(c.locks), lost, deleted, requeued, doubles, why)
	}
}

// awaitRenewals waits until all holders have renewed in the epoch or a later one, or have lost
// their entries.
func (c *crowd) awaitRenewals(epoch int64) {
	c.Helper()
	for _, l := range c.locks {
		c.eventually("a holder has renewed under the new leader, or lost its lock", func() bool {
			exists, stat, err := c.raw.Exists(l.hold.EntryPath())
			return err == nil && (!exists || stat.Mzxid>>32 >= epoch)
		})
	}
}

// disperse ends all holds. It waits until every waiter has held its lock and no node is left.
func (c *crowd) disperse() {
	c.Helper()
	for _, l := range c.locks {
		l.out()
		c.unlock(l.hold)
	}
	c.waits.Wait()
	for _, l := range c.locks {
		l.room.check(c)
		if n := l.room.entries.Load(); n != 2 {
			c.Errorf("%d got %s, want the holder and the waiter", n, l.name)
		}
	}
	c.nothingLeft()
}

// exists reports whether a node exists. It asks again if the connection is lost.
func (b *bench) exists(path string) (exists bool) {
	b.Helper()
	b.eventually("a server answers", func() bool {
		var err error
		exists, _, err = b.raw.Exists(path)
		return err == nil
	})
	return exists
}

// corpse is the entry of a holder that was killed.
type corpse struct {
	*bench
	entry string
	pulse string // node that is written continuously, to notice outages
	died  time.Time
	gone  chan struct{} // closed when the entry was deleted, or the test has ended
	went  time.Time     // time from which the entry is known to be deleted
	over  chan struct{} // closed when the waiter behind the entry, if there is one, has held the lock

	mu      sync.Mutex
	outages []outage
}

// outage is a period in which no write to a pulse succeeded.
type outage struct{ began, ended time.Time }

// noOutage is the longest duration of a write that does not count as an outage.
const noOutage = time.Second

// watch polls the entry until it is deleted or the test ends. Before each read it writes to the
// pulse, to record outages.
func (c *corpse) watch() {
	defer close(c.gone)
	served := time.Now()
	for again := time.NewTicker(50 * time.Millisecond); ; {
		if _, err := c.raw.Set(c.pulse, nil, -1); err == nil {
			now := time.Now()
			if now.Sub(served) > noOutage {
				c.mu.Lock()
				c.outages = append(c.outages, outage{served, now})
				c.mu.Unlock()
			}
			served = now
		}
		if exists, _, err := c.raw.Exists(c.entry); err == nil && !exists {
			c.went = time.Now()
			return
		}
		select {
		case <-again.C:
		case <-c.Context().Done():
			return
		}
	}
}

// lost returns how much later than usual the entry may be purged, counted from since. Each outage
// adds its duration after since. An outage that began after since also adds a third of a TTL, which
// a waiter waits after the outage before it judges. The result is at most longTTL.
func (c *corpse) lost(since time.Time) (lost time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.outages {
		switch {
		case !o.ended.After(since):
		case o.began.Before(since): // the outage of the election itself; the limit of the caller allows for the third of a TTL after it
			lost += o.ended.Sub(since)
		default:
			lost += o.ended.Sub(o.began) + longTTL/3
		}
	}
	return min(lost, longTTL) // a purge that is later than this is too late in any case
}

// corpses starts and kills the holders of two locks, and returns their entries. waiter waits for
// the first lock. Only the reaper can delete the entry of the second lock.
func (b *bench) corpses(waiter *lock.Client, suffix string) []*corpse {
	b.Helper()
	var holders []*process
	var dead []*corpse
	names := []string{"waited-for-" + suffix, "forgotten-" + suffix}
	pulse := b.create("/pulse-", "", zk.FlagSequence)
	for _, name := range names {
		p := b.holderFor(name, longTTL)
		p.says("held")
		b.eventually("the entry is there for us too", func() bool { return len(b.children(name)) > 0 })
		holders = append(holders, p)
		dead = append(dead, &corpse{bench: b, entry: b.root + "/" + name + "/" + b.first(name), pulse: pulse, gone: make(chan struct{}), over: make(chan struct{})})
	}
	queued := waiter.Stats().Waiters
	go func() {
		defer close(dead[0].over)
		h, err := waiter.Mutex(names[0]).Lock(b.ctx)
		switch {
		case err == nil:
			b.unlock(h)
		case b.ctx.Err() == nil: // after the end of the test, errors do not count
			b.Errorf("the waiter behind a dead holder: %v", err)
		}
	}()
	b.Cleanup(func() { <-dead[0].over })
	close(dead[1].over)
	b.eventually("the waiter queues", func() bool { return waiter.Stats().Waiters > queued })
	for i, p := range holders {
		p.Kill()
		dead[i].died = time.Now()
		go dead[i].watch()
		b.Cleanup(func() { <-dead[i].gone })
	}
	return dead
}

// purged waits until the entry is deleted. The test fails if the entry is deleted within half a TTL
// of its holder's end, or after since plus within. Outages do not count. since is the time of the
// first write under the leader whose clock decides.
func (c *corpse) purged(since time.Time, within time.Duration) {
	c.Helper()
	until := since.Add(within)
	for left := time.Until(until); left > 0 && !closed(c.gone); left = time.Until(until) {
		select {
		case <-c.gone:
		// wall clock: the bound, TTL and grace, is what the test is about
		case <-time.After(left):
		}
		until = since.Add(within + c.lost(since))
	}
	if until = since.Add(within + c.lost(since)); !closed(c.gone) || c.went.IsZero() || c.went.After(until) {
		c.Fatalf("%s blocks for more than %v after its holder died, with a TTL of %v and a grace of %v, and %v lost by outages",
			c.entry, until.Sub(c.died), longTTL, grace, c.lost(since))
	}
	after := c.went.Sub(c.died)
	if after < longTTL/2 { // a live holder renews each third of the TTL
		c.Errorf("%s was deleted %v after its holder died, whose lease of %v was not over", c.entry, after, longTTL)
	}
	c.Logf("%s was purged %v after its holder died", c.entry, after.Round(time.Millisecond))
	select {
	case <-c.over:
	case <-c.ctx.Done():
		c.Fatalf("the waiter behind %s does not get in", c.entry)
	}
}
