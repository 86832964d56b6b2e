package integration_test

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// taking takes the named lock for the client. Only one client at a time can hold the lock.
type taking func(context.Context, *lock.Client, string) (*lock.Hold, error)

// write takes a read/write lock for writing. permit takes the only permit of a semaphore.
var (
	write taking = func(ctx context.Context, c *lock.Client, name string) (*lock.Hold, error) {
		return c.RWMutex(name).Lock(ctx)
	}
	permit taking = func(ctx context.Context, c *lock.Client, name string) (*lock.Hold, error) {
		return c.Semaphore(name, 1).Acquire(ctx, 1)
	}
)

// as makes do run on the kind of lock that how takes.
func as(how taking, do func(*cut)) func(*cut) {
	return func(c *cut) {
		c.how = how
		do(c)
	}
}

func lockFree(c *cut) {
	c.begin()
	c.work(c.take(c.victim))
}

// again makes do run on a lock that the victim has just used, so that the victim knows the parent.
func again(do func(*cut)) func(*cut) {
	return func(c *cut) {
		c.alone = true
		h := c.lockAgain()
		c.enter(h)()
		c.unlock(h)
		do(c)
	}
}

// leaveAndJoin: the victim unlocks while another of its goroutines waits. One transaction deletes
// the victim's entry and creates the victim's next entry.
func leaveAndJoin(c *cut) {
	c.alone = true
	first := c.lock(c.victim, c.name)
	leave := c.enter(first)
	type result struct {
		h   *lock.Hold
		err error
	}
	second := make(chan result, 1)
	c.helpers.Go(func() {
		h, err := c.victim.Mutex(c.name).Lock(c.ctx)
		second <- result{h, err}
	})
	for c.victim.Stats().Waiters == 0 && c.ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	leave()
	c.begin()
	var unconfirmed *lock.UnlockError
	if err := first.Unlock(); err != nil && !c.lost(err) && !(c.fault == zkserver.HoldReply && errors.As(err, &unconfirmed)) {
		c.Errorf("Unlock = %v", err)
	}
	r := <-second
	if r.err != nil {
		c.end()
		c.Errorf("Lock = %v", r.err)
		return
	}
	if r.h.Token().Compare(first.Token()) <= 0 {
		c.Errorf("token %v after %v", r.h.Token(), first.Token())
	}
	c.work(r.h)
	if c.exists(first.EntryPath()) && first.EntryPath() != r.h.EntryPath() {
		c.Errorf("%s is there after the next hold, %s", first.EntryPath(), r.h.EntryPath())
	}
}

// tidy: the victim unlocks a lock that it has used twice. The victim deletes the parent a second
// later.
func tidy(c *cut) {
	h := c.lockAgain()
	c.enter(h)()
	c.begin()
	if err := h.Unlock(); !c.lost(err) {
		c.unlocked(h, err)
	}
	c.eventually("the parent has gone, or another client comes", func() bool { return c.isHit() || !c.exists(c.root+"/"+c.name) })
	c.end()
}

// lockAgain takes the lock, unlocks it and takes it again.
func (c *cut) lockAgain() *lock.Hold {
	h := c.lock(c.victim, c.name)
	c.enter(h)()
	c.unlock(h)
	return c.lock(c.victim, c.name)
}

// lockContended: the victim waits long enough to renew its entry, or until the fault is over.
func lockContended(c *cut) {
	holder := c.take(c.peer)
	leave := c.enter(holder)
	c.begin()
	c.helpers.Go(func() {
		select {
		// wall clock: the victim renews its entry meanwhile
		case <-time.After(c.ttl / 2):
		case <-c.hit:
			<-c.over
		}
		leave()
		c.unlock(holder)
	})
	c.work(c.take(c.victim))
}

// lockCancelled: the context of the victim's wait ends when the fault occurs, or else after the
// victim has renewed its entry.
func lockCancelled(c *cut) {
	holder := c.lock(c.peer, c.name)
	leave := c.enter(holder)
	ctx, cancel := context.WithCancelCause(c.ctx)
	changed := errors.New("changed our mind")
	c.begin()
	c.helpers.Go(func() {
		select {
		// wall clock: the victim renews its entry meanwhile
		case <-time.After(c.ttl / 2):
		case <-c.hit:
		}
		cancel(changed)
	})
	h, err := c.victim.Mutex(c.name).Lock(ctx)
	if h != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, changed) {
		c.Errorf("Lock = %v, %v; want that it was cancelled", h, err)
	}
	if errors.Is(err, lock.ErrHeld) {
		c.heldByPeer(err)
	}
	c.eventually("the victim's entry is gone", func() bool { return c.entries("victim") == 0 })
	if c.isHit() {
		<-c.over
	}
	c.close() // also waits for background work
	c.end()
	leave()
	c.unlock(holder)
}

func tryLockFree(c *cut) {
	c.begin()
	h, err := c.victim.Mutex(c.name).TryLock(c.ctx)
	if err == nil {
		c.work(h)
		return
	}
	c.heldByPeer(err)
	c.end()
}

func unlockAlone(c *cut) {
	h := c.lock(c.victim, c.name)
	c.unlocks(h)
}

func unlockWithWaiter(c *cut) {
	h := c.lock(c.victim, c.name)
	c.helpers.Go(c.contend)
	c.eventually("there is a waiter", func() bool { return c.entries("peer") > 0 })
	c.unlocks(h)
}

func (c *cut) unlocks(h *lock.Hold) {
	c.enter(h)()
	c.begin()
	err := h.Unlock()
	c.end()
	if !c.lost(err) {
		c.unlocked(h, err)
	}
}

// renewal: the victim holds the lock for two renewals. A cut does not end the hold. A held reply
// ends it, and Err and Unlock return ErrExpired.
func renewal(c *cut) {
	h := c.lock(c.victim, c.name)
	leave := c.enter(h)
	before := c.victim.Stats().Renewals
	c.begin()
	c.eventually("two renewals, or the hold's end", func() bool {
		return c.victim.Stats().Renewals >= before+2 || h.Err() != nil
	})
	c.end()
	lost := c.isHit() && c.fault == zkserver.HoldReply
	kept := c.fault != zkserver.HoldReply // with HoldReply the lease is short, and may end before the fault
	switch err := h.Err(); {
	case lost && (!errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) || h.Remaining() > 0):
		c.Errorf("the hold could not be renewed and ended with %v; valid: %v", err, h.Remaining() > 0)
	case kept && (err != nil || h.Remaining() == 0):
		c.Errorf("the hold ended with %v; valid: %v", err, h.Remaining() > 0)
	}
	leave()
	if err := h.Unlock(); lost && !errors.Is(err, lock.ErrExpired) || kept && err != nil {
		c.Errorf("Unlock = %v", err)
	}
}

// purge: the victim finds the entries of two crashed clients in the queue, and takes the lock.
func purge(c *cut) {
	c.bury(c.name, 0)
	c.begin()
	c.work(c.lock(c.victim, c.name))
}

// bury creates a lock with two entries, and waits until grace and orphanAfter have passed since
// their leases expired.
func (c *cut) bury(name string, orphanAfter time.Duration) {
	const ttl = 10 * time.Millisecond
	c.unlock(c.lock(c.peer, name)) // creates the root and the ancestors
	c.gone(c.root + "/" + name)
	c.create(c.root+"/"+name, string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
	for c.dead = 0; c.dead < 2; c.dead++ {
		dead := znode.Record{Owner: "dead", TTL: ttl.Milliseconds()}
		c.create(c.root+"/"+name+"/"+znode.Prefix(znode.NewID(), znode.Exclusive), string(dead.Encode()), zk.FlagSequence)
	}
	c.overdue(c.peer, name, orphanAfter)
}

// sweep: the victim sweeps a tree with an orphan, an empty ancestor, two expired entries and a live
// entry. The live entry stays.
func sweep(c *cut) {
	live := c.lock(c.peer, "live")
	c.create(c.root+"/orphan", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
	c.create(c.root+"/empty", string(znode.Parent{Kind: znode.Dir}.Encode()), 0)
	const orphanAfter = time.Second
	c.bury("dead", orphanAfter) // also waits until the orphan and the ancestor are old enough
	r, err := reaper.New(c.victim, reaper.Options{Policies: c.policies(c.ttl, orphanAfter), Concurrency: 1, Lock: "reaper"})
	iferr.Fatal(c, err)
	c.name = "reaper" // the peer contends for the reaper's lock

	c.begin()
	report, err := r.Sweep(c.ctx)
	c.end()
	var unconfirmed *lock.UnlockError
	switch late := c.fault == zkserver.HoldReply; {
	case errors.Is(err, lock.ErrHeld):
		c.heldByPeer(err)
	case err == nil, late && errors.As(err, &unconfirmed) && !errors.Is(err, lock.ErrLost):
		if !report.Complete {
			c.Errorf("incomplete, and no error: %+v", report)
		}
		for _, swept := range []string{"orphan", "empty", "dead"} {
			if c.exists(c.root + "/" + swept) {
				c.Errorf("%s is there after a complete sweep: %+v", swept, report.Total)
			}
		}
	case late && errors.Is(err, lock.ErrExpired):
	default:
		c.Errorf("Sweep = %+v, %v", report, err)
	}
	if live.Remaining() == 0 || !c.exists(live.EntryPath()) {
		c.Errorf("the sweep ended a live hold: %v", live.Err())
	}
	c.unlock(live)
}

// reading makes do run on a read/write lock that the victim reads and other clients write.
func reading(do func(*cut)) func(*cut) {
	return func(c *cut) {
		c.how = func(ctx context.Context, client *lock.Client, name string) (*lock.Hold, error) {
			if client == c.victim {
				return client.RWMutex(name).RLock(ctx)
			}
			return client.RWMutex(name).Lock(ctx)
		}
		do(c)
	}
}

// several makes do run on a lock that the victim locks together with another one.
func several(do func(*cut)) func(*cut) {
	return func(c *cut) {
		var other *lock.Hold
		c.how = func(ctx context.Context, client *lock.Client, name string) (*lock.Hold, error) {
			if client != c.victim {
				return client.Mutex(name).Lock(ctx)
			}
			hs, err := client.All([]string{name, name + "-too"}).Lock(ctx)
			if err != nil {
				return nil, err
			}
			other = hs.Hold(name + "-too")
			return hs.Hold(name), nil
		}
		do(c)
		if err := other.Unlock(); !c.lost(err) {
			c.unlocked(other, err)
		}
	}
}

// lost reports whether err is ErrExpired while replies are held. Other faults end no lease.
func (c *cut) lost(err error) bool {
	return c.fault == zkserver.HoldReply && errors.Is(err, lock.ErrExpired)
}

// downgrade: the victim, a writer, continues as a reader. Its entry is then marked as shared,
// unless the hold was lost.
func downgrade(c *cut) {
	h := c.take(c.victim)
	leave := c.enter(h)
	c.begin()
	err := c.victim.RWMutex(h.Name()).Downgrade(c.ctx, h)
	c.end()
	if err == nil {
		data, _, err := c.raw.Get(h.EntryPath())
		if record, _ := znode.DecodeRecord(data); h.Remaining() > 0 && (err != nil || !record.Shared) {
			c.Errorf("the victim was told that it only reads, and its entry is %q, %v", data, err)
		}
	} else if !c.lost(err) {
		c.Errorf("Downgrade = %v", err)
	}
	leave()
	if err := h.Unlock(); !c.lost(err) {
		c.unlocked(h, err)
	}
}

// resize returns an operation in which the victim changes the number of permits while the peer
// holds one.
func resize(from, to int) func(*cut) {
	return func(c *cut) {
		c.how = func(ctx context.Context, client *lock.Client, name string) (*lock.Hold, error) {
			return client.Semaphore(name, from).Acquire(ctx, 1)
		}
		holder := c.take(c.peer)
		c.begin()
		if err := c.victim.Semaphore(c.name, from).Resize(c.ctx, to); err != nil {
			c.Errorf("Resize = %v", err)
		}
		c.end()
		data, _, err := c.raw.Get(c.root + "/" + c.name)
		if err == nil {
			parent, _ := znode.DecodeParent(data)
			data, _, err = c.raw.Get(c.root + "/" + c.name + "/" + znode.Anchor(parent.Generation))
		}
		if anchor, _ := znode.DecodeAnchor(data); err != nil || int(anchor.Capacity()) != to {
			c.Errorf("after a change to %d permits the lock's anchor is %q, %v", to, data, err)
		}
		c.unlock(holder)
	}
}

// detach: the victim detaches, and the peer attaches; no client enters in between. If the victim's
// detach is confirmed, the peer's attach succeeds.
func detach(c *cut) {
	h := c.lock(c.victim, c.name)
	c.enter(h)()
	c.begin()
	ticket, err := h.Detach(c.ctx, peerTTL)
	c.end()
	var unconfirmed *lock.UnlockError
	sure := err == nil
	if !sure && !c.lost(err) && !(c.fault == zkserver.HoldReply && errors.As(err, &unconfirmed)) {
		c.Errorf("Detach = %v", err)
	}
	if ticket.IsZero() {
		return
	}
	attached, err := c.peer.Attach(c.ctx, ticket)
	switch {
	case err == nil:
		c.enter(attached)()
		c.unlock(attached)
	case sure || !errors.Is(err, lock.ErrRemoved):
		c.Errorf("Attach = %v, sure of the ticket: %v", err, sure)
	}
}

// attach: the victim attaches to an entry that the peer has detached.
func attach(c *cut) {
	h := c.lock(c.peer, c.name)
	c.enter(h)()
	ticket, err := h.Detach(c.ctx, peerTTL)
	iferr.Fatal(c, err)
	c.begin()
	attached, err := c.victim.Attach(c.ctx, ticket)
	if err == nil {
		c.work(attached)
		return
	}
	c.end()
	if c.fault != zkserver.HoldReply || !errors.Is(err, lock.ErrRemoved) {
		c.Errorf("Attach = %v", err)
	}
}
