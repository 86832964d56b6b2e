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

type listing struct {
	names []string
	stat  *zk.Stat
}

// Children lists a node, and returns its Stat.
func (c *Conn) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
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

// Synced syncs and then reads, by read, and repeats both until they were made in one session:
// the server of another session may lag behind the one that has synced. The path is that of
// the Sync.
func Synced[T any](ctx context.Context, c *Conn, path string, read func() (T, error)) (T, error) {
	for {
		if err := c.ready(ctx); err != nil {
			var none T
			return none, err
		}
		session := c.Session()
		if err := c.Sync(ctx, path); err != nil {
			var none T
			return none, err
		}
		value, err := read()
		if session != 0 && c.Session() == session || ctx.Err() != nil {
			return value, err
		}
	}
}

// GetSynced is Get on a server that has caught up with its leader, see [Synced].
func (c *Conn) GetSynced(ctx context.Context, path string) (Node, error) {
	return Synced(ctx, c, path, func() (Node, error) { return c.Get(ctx, path) })
}

// ExistsSynced is Exists on a server that has caught up with its leader, see [Synced].
func (c *Conn) ExistsSynced(ctx context.Context, path string) (*zk.Stat, error) {
	return Synced(ctx, c, path, func() (*zk.Stat, error) { return c.Exists(ctx, path) })
}

// ChildrenSynced is Children on a server that has caught up with its leader, see [Synced].
func (c *Conn) ChildrenSynced(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	l, err := Synced(ctx, c, path, func() (listing, error) {
		names, stat, err := c.Children(ctx, path)
		return listing{names, stat}, err
	})
	return l.names, l.stat, err
}

// WatchSynced is Watch on a server that has caught up with its leader, see [Synced].
func (c *Conn) WatchSynced(ctx context.Context, path string) (Node, <-chan zk.Event, error) {
	type watched struct {
		Node
		changed <-chan zk.Event
	}
	w, err := Synced(ctx, c, path, func() (watched, error) {
		n, changed, err := c.Watch(ctx, path)
		return watched{n, changed}, err
	})
	return w.Node, w.changed, err
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
