package revoke

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// mostCleared is the largest number of requests that a call of Ask reads to delete stale requests.
const mostCleared = 16

// Ask requests the release of the named lock from all its holders, and does not wait for the
// release. It returns the number of entries asked, including holders that have left meanwhile, and
// the paths of other libraries' entries, which cannot be asked. If the lock has no holder, it
// returns 0 and no error. It fails with znode.ErrForeign or ErrNewer if the lock's nodes hold
// other data, and with zkconn.ErrDenied if an ACL forbids a request.
func (b *Requests) Ask(ctx context.Context, lock, reason string) (asked int, others []string, err error) {
	holders, err := zkconn.Synced(ctx, b.Conn, b.Root+"/"+lock, func() ([]znode.Name, error) { return b.holders(ctx, b.Root+"/"+lock) })
	if err != nil {
		return 0, nil, err
	}
	for _, n := range holders {
		if !n.Ours() {
			others = append(others, b.Root+"/"+lock+"/"+n.Node)
			continue
		}
		r := b.Who
		r.Request, r.Entry, r.Reason = znode.FormatID(b.Random.Uint64()), lock+"/"+n.Node, reason
		if err := b.put(ctx, n.Node, r); err != nil {
			return asked, others, fmt.Errorf("ask %s: %w", b.Root+"/"+r.Entry, err)
		}
		asked++
	}
	b.Tasks.Go(b.clearSome)
	return asked, others, nil
}

// holders returns the contenders that hold a lock, or whose turn has come.
func (b *Requests) holders(ctx context.Context, parent string) ([]znode.Name, error) {
	for {
		n, err := b.Conn.Get(ctx, parent)
		if err != nil {
			return nil, missing(err)
		}
		data, err := znode.DecodeParent(n.Data)
		if err != nil {
			return nil, err
		}
		rules, err := Rules(ctx, b.Conn, parent, data)
		if err != nil {
			return nil, missing(err)
		}
		children, _, err := b.Conn.Children(ctx, parent)
		if err != nil {
			return nil, missing(err)
		}
		var failed error
		shares := map[string]bool{} // by writer: Holders asks once for each reader behind it
		holders := znode.Holders(znode.Contenders(children), rules, func(writer znode.Name) bool {
			if is, known := shares[writer.Node]; known {
				return is
			}
			var n zkconn.Node
			if n, failed = b.Conn.Get(ctx, parent+"/"+writer.Node); failed != nil {
				return false
			}
			entry := znode.ReadEntry(writer, n.Data, znode.Stat(*n.Stat))
			shares[writer.Node] = entry.Shares()
			return shares[writer.Node]
		})
		if !errors.Is(failed, zk.ErrNoNode) { // otherwise the writer has left meanwhile: read all again
			return holders, missing(failed)
		}
	}
}

// Rules returns the admission rules of a lock; data is that of its parent. For a semaphore it reads
// the anchor, and fails with zk.ErrNoNode if there is none.
func Rules(ctx context.Context, conn *zkconn.Conn, parent string, data znode.Parent) (znode.Rules, error) {
	r := znode.Rules{Kind: data.Kind}
	if data.Kind != znode.Semaphore {
		return r, nil
	}
	n, err := conn.Get(ctx, parent+"/"+znode.Anchor(data.Generation))
	if err != nil {
		return r, err
	}
	a, err := znode.DecodeAnchor(n.Data)
	r.Capacity = a.Capacity()
	return r, err
}

// missing converts the error of a read of a lock. A missing node is no error: there are no holders.
func missing(err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: the lock's ACL does not let us read it", zkconn.ErrDenied)
	}
	return err
}

// put creates the request r to the entry with that id, and replaces an earlier request. If the entry
// has gone, it does nothing and returns nil.
//
// put deletes an existing request and creates the new one, because listening clients watch the list
// of the requests, and not each request.
func (b *Requests) put(ctx context.Context, id string, r znode.Revocation) error {
	check := &zk.CheckVersionRequest{Path: b.Root + "/" + r.Entry, Version: -1}
	create := &zk.CreateRequest{Path: path(b.Root, id), Data: r.Encode(), Acl: b.ACL}
	ops := []any{check, create}
	return b.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		_, err := b.Conn.Multi(ctx, ops...)
		op, cause := zkconn.RefusedOp(err)
		switch {
		case op == 0 && errors.Is(cause, zk.ErrNoNode):
			return nil
		case errors.Is(cause, zk.ErrNoAuth):
			return zkconn.Final(fmt.Errorf("%w: the ACL of %s does not let us", zkconn.ErrDenied, path(b.Root, "")))
		case op == len(ops)-1 && errors.Is(cause, zk.ErrNoNode):
			return b.createParent(ctx, err)
		case op == len(ops)-1 && errors.Is(cause, zk.ErrNodeExists):
			n, err := b.Conn.Get(ctx, create.Path)
			switch {
			case err == nil && bytes.Equal(n.Data, create.Data): // the reply was lost
				return nil
			case err == nil:
				ops = []any{check, &zk.DeleteRequest{Path: create.Path, Version: n.Stat.Version}, create}
				return zkconn.ErrAgain
			case errors.Is(err, zk.ErrNoNode):
				return zkconn.Later(err)
			}
			return err
		case op == 1 && len(ops) == 3 && (errors.Is(cause, zk.ErrBadVersion) || errors.Is(cause, zk.ErrNoNode)):
			// Another client has replaced or deleted the request.
			ops = []any{check, create}
			return zkconn.ErrAgain
		}
		return err
	})
}

// clearSome reads up to mostCleared requests, from a random one on, and deletes the stale ones.
func (b *Requests) clearSome() {
	ctx, cancel := context.WithTimeout(b.Closing, b.Patience)
	defer cancel()
	ids, _, err := b.Conn.Children(ctx, path(b.Root, ""))
	for i, at := 0, b.Random.IntN(max(1, len(ids))); err == nil && i < min(len(ids), mostCleared); i++ {
		if err = b.clear(ctx, ids[(at+i)%len(ids)]); errors.Is(err, errStands) {
			err = nil
		}
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, zk.ErrNoNode) {
		b.Log.Debug().Err(err).Msg("stale release requests could not be deleted, and are left to the reaper")
	}
}
