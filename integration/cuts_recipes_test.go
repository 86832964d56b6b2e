package integration_test

import (
	"context"
	"errors"

	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/znode"
)

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
	if err != nil {
		c.Fatal(err)
	}
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
