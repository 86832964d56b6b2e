package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// rollover waits until a parent whose counter is at its end has been deleted: the next parent
// counts from 0 again. The contender's entry e leaves first; nil: it has none. The generation is
// that of the parent; "": unknown. rollover purges expired entries; if there are no contenders, it
// deletes the parent. A try does not wait: if there are contenders after one purge, or the first
// attempt to delete the parent changes nothing, it fails with a Blocked. The wait also ends if
// another client or program has created the parent again.
func (c *contender) rollover(ctx context.Context, e *Entry, generation string) error {
	c.Log.Info().Str("lock", c.Lock).Msg("the lock's counter is at its end; waiting until all contenders have left")
	if e != nil && (!c.trying || c.Leave(ctx, e) != nil) {
		e.Remove()
	}
	seen := map[string]*sighting{}
	var czxid int64 // of the parent at the last read; 0: none yet
	for purged, deleted := false, false; ; purged = true {
		n, changed, err := c.Conn.Watch(ctx, c.parent)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			c.lock.believe(parent{})
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			return fmt.Errorf("%w: read %s: its ACL does not let us", zkconn.ErrDenied, c.parent)
		case err != nil:
			return err
		}
		now := znode.ReadNode(n.Data, znode.Stat(*n.Stat)).Generation
		if czxid != 0 && n.Stat.Czxid != czxid || generation != "" && now != generation {
			c.lock.believe(parent{state: unknown})
			return nil
		}
		czxid = n.Stat.Czxid
		names, err := c.list(ctx, false)
		if err != nil {
			return err
		}
		if c.trying && (deleted || purged && len(names) > 0) {
			return &Blocked{Path: c.parent}
		}
		if deleted = len(names) == 0; deleted {
			if err := c.deleteSpentParent(ctx, n); errors.Is(err, zkconn.ErrDenied) || zkconn.OutcomeOf(err) == zkconn.Refused {
				return err
			}
		} else if err := c.purgeAmong(ctx, names, seen); err != nil {
			c.Log.Debug().Err(err).Str("lock", c.Lock).Msg("the lock's counter is at its end and there are contenders; retrying")
		}
		if c.trying {
			continue
		}
		if err := await(ctx, changed, pollEvery); err != nil {
			return err
		}
	}
}

// deleteSpentParent deletes a parent whose counter is at its end, on the version that was read,
// unless the parent must stay. It returns nil, too, if the parent has changed since the read. It
// fails with zkconn.ErrDenied if the parent is not adopted: then an ACL forbids this client to adopt
// it, and no client deletes it.
func (c *contender) deleteSpentParent(ctx context.Context, n zkconn.Node) error {
	ops := parentDeletion(c.parent, n, true)
	switch {
	case ops == nil && znode.ReadNode(n.Data, znode.Stat(*n.Stat)).Generation == "":
		c.lock.believe(parent{state: unknown}) // the next join tries to adopt it
		return fmt.Errorf("%w: write %s, whose counter is at its end: its ACL does not let us", zkconn.ErrDenied, c.parent)
	case ops == nil:
		return nil
	}
	_, err := c.send(ctx, ops...)
	switch _, cause := zkconn.RefusedOp(err); {
	case errors.Is(cause, zk.ErrNoNode), errors.Is(cause, zk.ErrNotEmpty), errors.Is(cause, zk.ErrBadVersion):
		return nil
	case errors.Is(cause, zk.ErrNoAuth):
		return fmt.Errorf("%w: delete %s, whose counter is at its end: the ACL of the node above does not let us", zkconn.ErrDenied, c.parent)
	}
	return err
}
