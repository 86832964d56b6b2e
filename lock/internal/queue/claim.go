package queue

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// claim makes a node without a generation, or without its anchor, the parent of a lock: an empty
// node, as zk.Lock, Curator and kazoo create, or an ancestor of locks that Holdfast made. It returns
// the belief about the parent, which may be that of another client that was quicker, or that there
// is no parent any more. It creates nothing below a node that this contender cannot use.
//
// First it creates an ephemeral guard, which has the anchor's name. While the guard is there, no
// client can delete the node. So the transaction that replaces the guard by the anchor writes the
// node that was read after the guard was created, and proves that this client may write the node and
// delete below it. If the client crashes, the guard goes with the session.
func (c *contender) claim(ctx context.Context) (p parent, err error) {
	err = c.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		if _, _, err := c.readUnclaimed(ctx); err != nil {
			return c.unclaimable(ctx, &p, err)
		}
		p = parent{state: present, kind: c.Kind, generation: c.newID()}
		guard := anchorPath(c.parent, p.generation)
		if err := c.createGuard(ctx, guard); err != nil {
			return err
		}
		err := c.replaceGuard(ctx, guard, &p)
		if err != nil {
			c.removeGuard(guard)
			return c.unclaimable(ctx, &p, err)
		}
		c.lock.believe(p)
		return nil
	})
	return p, err
}

// errClaimed is the error of a claim that another client, or a lost request of this one, has made
// needless.
var errClaimed = errors.New("the parent has an anchor, or has gone")

// unclaimable handles an error of claim, and returns the error for Retry. After errClaimed it reads
// the parent, and sets p.
func (c *contender) unclaimable(ctx context.Context, p *parent, err error) error {
	if !errors.Is(err, errClaimed) {
		return err
	}
	if *p, err = c.readParent(ctx); err != nil {
		return zkconn.Final(err)
	}
	if p.state == unknown {
		return zkconn.Later(errClaimed)
	}
	return nil
}

// readUnclaimed reads a parent that has no generation, or lacks its anchor. It fails with errClaimed
// if the parent has both, or has gone.
func (c *contender) readUnclaimed(ctx context.Context) (n zkconn.Node, data znode.Parent, err error) {
	n, err = c.Conn.GetSynced(ctx, c.parent)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return n, data, errClaimed
	case errors.Is(err, zk.ErrNoAuth):
		err = denied("read", c.parent)
	}
	if err == nil {
		data, err = c.check(n)
	}
	if err != nil {
		return n, data, zkconn.Final(err)
	}
	if data.Generation == "" {
		return n, data, nil
	}
	if _, err := c.Conn.GetSynced(ctx, anchorPath(c.parent, data.Generation)); err == nil {
		return n, data, errClaimed
	} else if !errors.Is(err, zk.ErrNoNode) {
		return n, data, zkconn.Final(err)
	}
	return n, data, nil
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

// replaceGuard replaces the guard by the anchor, and writes the parent; p gets the result.
func (c *contender) replaceGuard(ctx context.Context, guard string, p *parent) error {
	n, data, err := c.readUnclaimed(ctx)
	if err != nil {
		return err
	}
	p.adopted = data.Adopted || len(n.Data) == 0
	p.anchor.Permits = c.Capacity
	ops := []any{
		&zk.DeleteRequest{Path: guard, Version: -1},
		&zk.CreateRequest{Path: guard, Data: p.anchor.Encode(), Acl: c.anchorACL},
		&zk.SetDataRequest{Path: c.parent, Data: p.data(), Version: n.Stat.Version},
	}
	replies, err := c.send(ctx, ops...)
	switch op, cause := zkconn.RefusedOp(err); {
	case err == nil:
		p.version, p.created, p.session = replies[2].Stat.Version, znode.Stat(*replies[2].Stat).Counter(), c.Conn.Session()
	case errors.Is(cause, zk.ErrNoNode), errors.Is(cause, zk.ErrBadVersion): // the session has ended, or another client was quicker
		return zkconn.Later(err)
	case op >= 0:
		return cmp.Or(unusable(c.parent, ops[op], cause), err)
	}
	return err
}
