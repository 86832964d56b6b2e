package zkconn

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Node is the result of one read of a node.
type Node struct {
	Data []byte
	Stat *zk.Stat // nil only after a failed read
}

// Get reads a node. Like all reads it is retried while the connection fails. If ctx ends, Get fails
// with ctx's error and cause, and with ErrUnavailable if there was no session. If the node is
// missing, it fails with zk.ErrNoNode.
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

type pair[A, B any] struct {
	a A
	b B
}

// paired converts a function with two results to a function that returns them as one pair, for
// read.
func paired[A, B any](f func() (A, B, error)) func() (pair[A, B], error) {
	return func() (pair[A, B], error) {
		a, b, err := f()
		return pair[A, B]{a, b}, err
	}
}

// Children returns the names of a node's children, in no particular order, and the node's Stat.
func (c *Conn) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	p, err := read(ctx, c, paired(func() ([]string, *zk.Stat, error) { return c.zk.Children(path) }))
	return p.a, p.b, err
}

// ACL reads a node's access control list.
func (c *Conn) ACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	p, err := read(ctx, c, paired(func() ([]zk.ACL, *zk.Stat, error) { return c.zk.GetACL(path) }))
	return p.a, p.b, err
}

// Sync waits until the server of the session has caught up with the leader. It changes nothing, and
// path need not exist.
func (c *Conn) Sync(ctx context.Context, path string) error {
	_, err := read(ctx, c, func() (string, error) { return c.zk.Sync(path) })
	return err
}

// Synced calls Sync for the path, and then read. It repeats both until they were made in one
// session, because the server of a new session may lag behind the synced one. If ctx ends during a
// read, Synced returns what that read returned.
func Synced[T any](ctx context.Context, c *Conn, path string, read func() (T, error)) (value T, err error) {
	for {
		if err := c.Ready(ctx); err != nil {
			return value, err
		}
		session := c.Session()
		if err := c.Sync(ctx, path); err != nil {
			return value, err
		}
		value, err = read()
		if session != 0 && c.Session() == session || ctx.Err() != nil {
			return value, err
		}
	}
}

// GetSynced is Get on a server that has caught up with the leader, see [Synced].
func (c *Conn) GetSynced(ctx context.Context, path string) (Node, error) {
	return Synced(ctx, c, path, func() (Node, error) { return c.Get(ctx, path) })
}

// ChildrenSynced is Children on a server that has caught up with the leader, see [Synced].
func (c *Conn) ChildrenSynced(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	p, err := Synced(ctx, c, path, paired(func() ([]string, *zk.Stat, error) { return c.Children(ctx, path) }))
	return p.a, p.b, err
}

// readBackoff is the backoff between reads after the connection has failed.
var readBackoff = Backoff{10 * time.Millisecond, time.Second}

// read runs a request that changes nothing, and retries it while the connection fails.
func read[T any](ctx context.Context, c *Conn, f func() (T, error)) (value T, err error) {
	err = c.Retry(ctx, readBackoff, func() error {
		if err := c.Ready(ctx); err != nil {
			return err
		}
		value, err = call(ctx, c, f)
		return err
	})
	if IsAbandoned(err) { // the request was in flight, so there was a session: no ErrUnavailable
		err = ContextError(ctx)
	}
	if err != nil {
		var none T
		return none, err
	}
	return value, nil
}

// ReadAtOnce is the number of nodes that ReadEach reads concurrently, before the next ones.
const ReadAtOnce = 16

// Result is what a read of ReadEach has returned.
type Result[K, T any] struct {
	Of    K
	Value T
	Err   error
}

// ReadEach calls read for each key, for ReadAtOnce of them concurrently, and yields the results in order.
func ReadEach[K, T any](keys []K, read func(K) (T, error)) iter.Seq[Result[K, T]] {
	return func(yield func(Result[K, T]) bool) {
		for some := range slices.Chunk(keys, ReadAtOnce) {
			results := make([]Result[K, T], len(some))
			var reads sync.WaitGroup
			for i, key := range some {
				reads.Go(func() {
					value, err := read(key)
					results[i] = Result[K, T]{key, value, err}
				})
			}
			reads.Wait()
			for _, r := range results {
				if !yield(r) {
					return
				}
			}
		}
	}
}
