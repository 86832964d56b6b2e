package admin

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// ErrTooLong says that the server does not take requests of that length.
var ErrTooLong = errors.New("the server ends the connection at a request of that length")

// ACL reads the access list of a node. Errors are those of [zk.Conn.GetACL].
func (t Tree) ACL(ctx context.Context, path string) ([]zk.ACL, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	acl, _, err := t.c.Conn.ACL(ctx, path)
	return acl, err
}

// SessionTimeout is what the server has granted to the client's session; 0 for a client
// that was given its connection.
func (t Tree) SessionTimeout() time.Duration {
	if t.c.Conn == nil {
		return 0
	}
	return t.c.Conn.SessionTimeout()
}

// Displacement is how often the clock of ZooKeeper's leader was seen to jump by the
// samples of this client, and how far the last time, negative for backwards.
func (t Tree) Displacement() (times uint64, by time.Duration) {
	if t.c.Clock == nil {
		return 0, 0
	}
	times, last := t.c.Clock.Displacements()
	return times, last.By
}

// Carries sends a request of more than size bytes, which changes nothing: it is to write a
// node that cannot be there. It fails with [ErrTooLong] if the server ends the connection
// for it, each time of several.
func (t Tree) Carries(ctx context.Context, size int) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	const tries = 3 // connections end for other reasons, too
	cut := 0
	return t.c.Conn.Retry(ctx, backoff, func() error {
		_, err := t.c.Conn.Multi(ctx, nil,
			&zk.CheckVersionRequest{Path: t.c.Root + "/.size", Version: 0},
			&zk.SetDataRequest{Path: t.c.Root + "/.size", Data: make([]byte, size)})
		if op, _ := zkconn.RefusedOp(err); op >= 0 {
			return nil
		}
		if zkconn.OutcomeOf(err) == zkconn.Ambiguous {
			if cut++; cut == tries {
				return zkconn.Final(errors.Join(ErrTooLong, err))
			}
		}
		return err
	})
}
