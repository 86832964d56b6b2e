package zkconn

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// Node is what one read of a node returned.
type Node struct {
	Data []byte
	Stat *zk.Stat // not nil after a read that succeeded
}

// Get reads a node. Like all reads it is made again for as long as the connection is what
// fails it; when ctx ends it fails with ctx's error and cause, and with ErrUnavailable if
// there was no session.
func (c *Conn) Get(ctx context.Context, path string) (Node, error) {
	return read(ctx, c, func() (Node, error) {
		data, stat, err := c.zk.Get(path)
		return Node{data, stat}, err
	})
}

// Exists reads a node's Stat. It fails with zk.ErrNoNode if there is no such node.
func (c *Conn) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	return read(ctx, c, func() (*zk.Stat, error) {
		exists, stat, err := c.zk.Exists(path)
		if err == nil && !exists {
			err = zk.ErrNoNode
		}
		return stat, err
	})
}

// Children lists a node, and returns its Stat.
func (c *Conn) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	type listing struct {
		names []string
		stat  *zk.Stat
	}
	l, err := read(ctx, c, func() (listing, error) {
		names, stat, err := c.zk.Children(path)
		return listing{names, stat}, err
	})
	return l.names, l.stat, err
}

// ACL reads a node's access control list.
func (c *Conn) ACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	type list struct {
		acl  []zk.ACL
		stat *zk.Stat
	}
	l, err := read(ctx, c, func() (list, error) {
		acl, stat, err := c.zk.GetACL(path)
		return list{acl, stat}, err
	})
	return l.acl, l.stat, err
}

// Sync lets the server that the session is with catch up with the leader.
func (c *Conn) Sync(ctx context.Context, path string) error {
	_, err := read(ctx, c, func() (string, error) { return c.zk.Sync(path) })
	return err
}

// readBackoff is how long reads pause that the connection has failed.
var readBackoff = Backoff{10 * time.Millisecond, time.Second}

// read runs a request that changes nothing, over again for as long as the
// connection is what fails it.
func read[T any](ctx context.Context, c *Conn, f func() (T, error)) (value T, err error) {
	err = c.Retry(ctx, readBackoff, func() error {
		if err := c.ready(ctx); err != nil {
			return err
		}
		value, err = call(ctx, c, f, nil)
		return err
	})
	if IsAbandoned(err) { // there was a session
		err = ContextError(ctx)
	}
	if err != nil {
		var none T
		return none, err
	}
	return value, nil
}
