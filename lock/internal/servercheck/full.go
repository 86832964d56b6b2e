package servercheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// between is the time between two transactions in which the leader's clock must go on. Stamps are in
// milliseconds, and some clocks tick only every sixteenth of a second.
const between = 100 * time.Millisecond

// Full makes the check of Once, and checks the properties that take further transactions. It takes
// at least a tenth of a second. It fails as Once does.
func (c *Checker) Full(ctx context.Context) error {
	if _, err := c.Conn.Exists(ctx, "/keeper/api_version"); err == nil {
		return Keeper("it has a node /keeper/api_version")
	} else if !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	before, missing, err := c.once(ctx)
	if err == nil {
		err = c.versions(ctx, missing)
	}
	for tries := 0; err == nil; tries++ {
		if err := pause(ctx, between); err != nil {
			return err
		}
		var after Stamp
		if after, err = c.Once(ctx); err != nil {
			break
		}
		why := rises(before, after)
		if why == nil || tries > 0 { // the clock may have been set in between, but not twice
			return why
		}
		before = after
	}
	return err
}

// versions checks that the server refuses a transaction that writes a node on a wrong version.
// missing is the number of the root's missing components.
func (c *Checker) versions(ctx context.Context, missing int) error {
	err := c.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		node := c.Root + "/clock-" + c.NewID()
		makes, deletes := ancestors(c.Root, missing, c.ACL)
		ops := append(makes,
			&zk.CreateRequest{Path: node, Acl: c.ACL},
			&zk.SetDataRequest{Path: node, Data: data, Version: 7},
			&zk.DeleteRequest{Path: node, Version: -1})
		_, err := c.Conn.Multi(ctx, append(ops, deletes...)...)
		return err
	})
	switch op, cause := zkconn.RefusedOp(err); {
	case err == nil:
		return wrong("it has accepted a write under a version that the node does not have")
	case op < 0:
		return err
	case op == missing+1 && errors.Is(cause, zk.ErrBadVersion):
		return nil
	case op <= missing && (errors.Is(cause, zk.ErrNoNode) || errors.Is(cause, zk.ErrNodeExists)):
		return nil // another client has created or deleted the root meanwhile
	case errors.Is(cause, zk.ErrNoAuth):
		return &Unchecked{fmt.Errorf("%w: a scratch node below %s", zkconn.ErrDenied, c.Root)}
	}
	return wrong("it refuses a write under a version that the node does not have, but for another reason: %v", err)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return zkconn.ContextError(ctx)
	}
}

// rises returns an error unless zxid and time rise from before to after. The second transaction was
// sent 100 ms (between) or more after the reply to the first one.
func rises(before, after Stamp) error {
	switch {
	case after.Zxid <= before.Zxid:
		return wrong("transaction %#x came after %#x: their numbers must rise", after.Zxid, before.Zxid)
	case after.Mtime <= before.Mtime:
		return wrong("transaction %#x has the time %d, and %#x, made %v later, %d: times must rise with transactions", before.Zxid, before.Mtime, after.Zxid, between, after.Mtime)
	}
	return nil
}
