package queue

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// adopt makes a node without a generation, or without its anchor, the parent of a lock: an empty
// node, as zk.Lock, Curator and kazoo create, or an ancestor of locks that Holdfast made. It returns
// the belief about the parent, which may be that of another client that was quicker, or that there
// is no parent any more. It creates nothing below a node that this contender cannot use.
//
// First it creates an ephemeral guard, which has the anchor's name. While the guard is there, no
// client can delete the node. So the transaction that replaces the guard by the anchor writes the
// node that was read after the guard was created, and proves that this client may write the node and
// delete below it. If the client crashes, the guard goes with the session.
func (c *contender) adopt(ctx context.Context) (p parent, err error) {
	err = c.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		if p, err = c.readParentSynced(ctx); err != nil {
			return zkconn.Final(err)
		} else if p.state != unknown {
			return nil
		}
		generation := c.newID()
		guard := anchorPath(c.parent, generation)
		if err := c.createGuard(ctx, guard); err != nil {
			return err
		}
		if p, err = c.readParentSynced(ctx); err != nil {
			err = zkconn.Final(err)
		} else if p.state == unknown {
			if p, err = c.replaceGuard(ctx, guard, generation, p); err == nil {
				c.lock.believe(p)
				return nil
			}
		}
		c.removeGuard(guard)
		return err
	})
	return p, err
}

// createGuard creates the guard. If an ACL forbids to delete the guard again, the server refuses the
// transaction, so nothing is left behind.
func (c *contender) createGuard(ctx context.Context, guard string) error {
	create := &zk.CreateRequest{Path: guard, Acl: c.ACL, Flags: zk.FlagEphemeral}
	ops := []any{create, &zk.DeleteRequest{Path: guard, Version: -1}, create}
	_, err := c.send(ctx, ops...)
	switch op, cause := zkconn.RefusedOp(err); {
	case zkconn.OutcomeOf(err) == zkconn.Ambiguous: // the next attempt has another guard
		c.removeGuard(guard)
	case errors.Is(cause, zk.ErrNoNode):
		return zkconn.Later(err)
	case op >= 0:
		return cmp.Or(unusable(c.parent, ops[op], cause), err)
	}
	return err
}

// replaceGuard replaces the guard by the anchor, and writes the parent, which was found without one. It
// returns the belief about the parent.
func (c *contender) replaceGuard(ctx context.Context, guard, generation string, found parent) (parent, error) {
	p := parent{state: present, kind: c.Kind, generation: generation, adopted: found.adopted, anchor: znode.AnchorData{Permits: c.Capacity}}
	ops := []any{
		&zk.DeleteRequest{Path: guard, Version: -1},
		&zk.CreateRequest{Path: guard, Data: p.anchor.Encode(), Acl: c.anchorACL},
		&zk.SetDataRequest{Path: c.parent, Data: p.data(), Version: found.version},
	}
	replies, err := c.send(ctx, ops...)
	switch op, cause := zkconn.RefusedOp(err); {
	case err == nil:
		p.version, p.created, p.session = replies[2].Stat.Version, znode.Stat(*replies[2].Stat).Counter(), c.Conn.Session()
	case errors.Is(cause, zk.ErrNoNode), errors.Is(cause, zk.ErrBadVersion): // the session has ended, or another client was quicker
		return p, zkconn.Later(err)
	case op >= 0:
		return p, cmp.Or(unusable(c.parent, ops[op], cause), err)
	}
	return p, err
}
