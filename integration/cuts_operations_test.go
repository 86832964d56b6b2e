package integration_test

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/history/audit"
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

// belowParent makes do run on a mutex whose parent exists, with its anchor and without an entry.
func belowParent(do func(*cut)) func(*cut) {
	return func(c *cut) {
		c.alone = true
		c.makeRoot()
		generation := znode.NewID()
		parent := znode.Parent{Kind: znode.Mutex, Generation: generation}
		acl := zk.WorldACL(zk.PermAll)
		_, err := c.raw.Multi(&zk.CreateRequest{Path: c.root + "/" + c.name, Data: parent.Encode(), Acl: acl},
			&zk.CreateRequest{Path: c.path(znode.Anchor(generation)), Data: znode.AnchorData{}.Encode(), Acl: acl})
		if err != nil {
			c.Fatal(err)
		}
		do(c)
	}
}

// adopting makes do run on a mutex whose node exists, with the data and without an anchor.
func adopting(data string, do func(*cut)) func(*cut) {
	return func(c *cut) {
		c.makeRoot()
		if c.create(c.root+"/"+c.name, data, 0); data == "" {
			c.adopt()
		}
		do(c)
	}
}

// adopt declares that the lock's node existed before Holdfast, so that it stays until the test
// deletes it.
func (c *cut) adopt() {
	c.adopted = true
	zkserver.Root(c, c.root, audit.Empty)
}

// makeRoot creates the root and the lock's ancestors.
func (c *cut) makeRoot() { c.unlock(c.lock(c.peer, c.name+"-before")) }

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

// soon is how long a test waits for a fault that may not occur.
const soon = time.Second

// lockBelowOthers: the victim waits behind a waiter that gives up, and then behind the holder.
func lockBelowOthers(c *cut) {
	holder := c.take(c.peer)
	leave := c.enter(holder)
	waiting, giveUp := context.WithCancel(c.ctx)
	c.helpers.Go(func() {
		if h, err := c.client(lock.WithOwner("other"), lock.WithTTL(peerTTL)).Mutex(c.name).Lock(waiting); err == nil {
			c.Errorf("the waiter ahead of the victim holds %s", h.EntryPath())
			c.unlock(h)
		}
	})
	c.eventually("the other one waits", func() bool { return c.entries("other") > 0 })
	c.begin()
	c.helpers.Go(func() {
		c.hitOrSoon()
		giveUp()
		c.eventually("the other one has gone", func() bool { return c.entries("other") == 0 })
		leave()
		c.unlock(holder)
	})
	c.work(c.take(c.victim))
}

// hitOrSoon waits until the fault is over, or for soon if the fault does not occur.
func (c *cut) hitOrSoon() {
	c.awaitBegin()
	select {
	// wall clock: that the fault does not occur is no event
	case <-time.After(soon):
	case <-c.hit:
		<-c.over
	}
}

// adoptBehindOthers: the victim adopts a node with an entry of another library, and waits until
// that entry is deleted.
func adoptBehindOthers(c *cut) {
	c.makeRoot()
	c.create(c.root+"/"+c.name, "", 0)
	c.adopt()
	theirs := c.create(c.path("_c_0123456789abcdef0123456789abcdef-lock-"), "", zk.FlagEphemeral|zk.FlagSequence)
	c.begin()
	c.helpers.Go(func() {
		c.hitOrSoon()
		if err := c.raw.Delete(theirs, -1); err != nil {
			c.Error(err)
		}
	})
	c.work(c.take(c.victim))
}

// leaveAndJoin: the victim unlocks while another of its goroutines waits. One transaction deletes
// the victim's entry and creates the victim's next entry.
func leaveAndJoin(c *cut) {
	c.alone = true
	c.exchanges(func() {})
}

// leaveAndJoinAmongOthers: the victim unlocks while the peer waits and, behind the peer, another
// goroutine of the victim.
func leaveAndJoinAmongOthers(c *cut) {
	c.exchanges(func() {
		c.helpers.Go(func() {
			h, err := c.acquire(c.peer)
			if err != nil {
				c.Errorf("the waiter: %v", err)
				return
			}
			leave := c.enter(h)
			c.hitOrSoon()
			leave()
			c.unlock(h)
		})
		c.eventually("the other one waits", func() bool { return c.entries("peer") > 0 })
		// The victim must unlock before it counts the contenders again. The longer the hold has
		// lasted, the later the victim counts.
		time.Sleep(soon) // wall clock: the time is what makes the victim count later
	})
}

func (c *cut) exchanges(before func()) {
	first := c.lock(c.victim, c.name)
	leave := c.enter(first)
	before()
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

// tidyAtClose: the victim unlocks, and deletes the parent when it closes.
func tidyAtClose(c *cut) {
	h := c.lockAgain()
	c.enter(h)()
	began := time.Now()
	c.begin() // a second after the unlock, the parent would go without Close
	if err := h.Unlock(); !c.lost(err) {
		c.unlocked(h, err)
	}
	c.close()
	slow := time.Since(began) >= time.Second // wall clock: Close waits so long for a reply
	c.end()
	if slow && !c.isHit() && c.exists(c.root+"/"+c.name) { // the next client deletes it
		c.unlock(c.lock(c.peer, c.name))
	}
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

func tryLockHeld(c *cut) {
	holder := c.lock(c.peer, c.name)
	leave := c.enter(holder)
	c.begin()
	h, err := c.victim.Mutex(c.name).TryLock(c.ctx)
	if h != nil {
		c.Errorf("TryLock = %s", h.EntryPath())
	}
	c.heldByPeer(err)
	c.end()
	if n := c.entries("victim"); n > 0 {
		c.Errorf("a try that failed has left %d entries", n)
	}
	leave()
	c.unlock(holder)
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
	if err != nil {
		c.Fatal(err)
	}
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
