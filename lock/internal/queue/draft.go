package queue

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// draft is an attempt as it is sent, by itself or together with those for other locks.
type draft struct {
	attempt
	id   string       // of the entry
	data znode.Parent // that the parent is written with
	ops  []any
	at   int // place of the entry's create among them

	led    bool  // it is made in the transaction of another contender for the same lock
	behind int32 // entries that are made behind it in that transaction
}

// draft makes the operations of an attempt. Acquired is the grant that the entry tells
// from the first, 0 if none.
func (c *contender) draft(a attempt, acquired int64, sent clock.Instant) *draft {
	d := &draft{attempt: a, id: c.NewID()}
	prefix := c.prefix(d.id)
	d.data = c.tellTail(a.parent.data, prefix)
	c.door.lastRelease(a.parent.czxid).tell(&d.data)
	d.ops, d.at = c.operations(a, d.data, prefix, acquired, sent)
	return d
}

// applied takes the replies to a draft's operations.
func (c *contender) applied(ctx context.Context, d *draft, replies []zk.MultiResponse, created lease.Created, received clock.Instant) (*Entry, position, error) {
	e := c.newEntry(replies[d.at].String, created)
	e.adopted, c.followed = d.write && d.data.Adopted, d.behind > 0
	stat := replies[len(replies)-1].Stat
	switch {
	case d.claim:
		return e, position{}, c.claim(ctx, e)
	case stat == nil:
		return e, position{}, nil
	}
	c.Clock.Observe(stat.Mzxid, stat.Mtime, created.Sent, received)
	return e, c.joined(ctx, e, d, stat, received.Mono), nil
}

// found takes the entry of a draft whose replies were lost.
func (c *contender) found(ctx context.Context, d *draft, path string, created lease.Created) *Entry {
	if c.Priority == 0 || d.parent.exists { // else the entry tells its grant, and somebody may have seen the leader
		created.Acquired = 0
	}
	e := c.newEntry(path, created)
	e.adopted, c.followed = d.write && d.data.Adopted, d.behind > 0
	if d.blind() {
		c.adopt(ctx, e, d.attempt, d.data, nil)
	}
	return e
}

// tellTail is the parent's data with that contender as the one that joined last.
func (c *contender) tellTail(data znode.Parent, prefix string) znode.Parent {
	if data.Kind, data.Tail = c.Kind, prefix; c.Kind == znode.Semaphore && data.Permits == 0 {
		data.Permits = c.Capacity
	}
	return data
}
