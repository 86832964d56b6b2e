package queue

import (
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// deletesParentOnLeave reports whether the transaction in which an entry leaves also deletes the
// parent and the anchor: the entry joined alone, the lock is not in frequent use, and the parent
// need not stay. The server refuses the transaction if another contender has joined. Then
// deleteOwedParents deletes the parent later.
func (x *exit) deletesParentOnLeave() bool {
	e := x.e
	return e.alone && !e.keepParent && !x.lock.stays(x.Clock.Mono())
}

// emptyParent is a parent without children except its anchor.
type emptyParent struct {
	path string
	duty *duty
	ops  []any // operations that delete the parent
}

// parentDeletion returns the operations that delete a lock's parent, on the version that was read,
// and the parent's anchor. It returns nil if the parent stays. spent: the parent's counter is at
// its end. The server refuses to delete the anchor if the parent was created again since the read.
// A parent without a generation is left to the reaper.
func parentDeletion(path string, n zkconn.Node, spent bool) []any {
	node := znode.ReadNode(n.Data, znode.Stat(*n.Stat))
	if node.Generation == "" || !node.ParentRemovable(true, spent) {
		return nil
	}
	return deleteParentOps(path, node.Generation, n.Stat.Version)
}

// deleteParentOps returns the operations that delete a parent, on the given version, and its
// anchor.
func deleteParentOps(path string, generation string, version int32) []any {
	return []any{
		&zk.DeleteRequest{Path: anchorPath(path, generation), Version: -1},
		&zk.DeleteRequest{Path: path, Version: version},
	}
}

// deleteOwedParents deletes parents in one transaction. If the server refuses to delete a parent,
// mostly because another contender has joined, the transaction is sent again without that parent.
// That contender then owes the check.
func (t *tidier) deleteOwedParents(batch []emptyParent) {
	ctx, cancel := t.forTidying()
	defer cancel()
	err := t.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		if len(batch) == 0 {
			return nil
		}
		var ops []any
		var whose []int
		for i, p := range batch {
			for _, op := range p.ops {
				ops, whose = append(ops, op), append(whose, i)
			}
		}
		_, err := t.send(ctx, ops...)
		if op, cause := zkconn.RefusedOp(err); op >= 0 {
			if errors.Is(cause, zk.ErrNoAuth) {
				t.Log.Debug().Err(cause).Str("parent", batch[whose[op]].path).Msg("an empty parent could not be deleted")
			}
			t.close(batch[whose[op]].duty.lock)
			batch = slices.Delete(batch, whose[op], whose[op]+1)
			return zkconn.ErrAgain
		}
		return err
	})
	for _, p := range batch {
		if err != nil {
			t.notTidied(p.path, p.duty, err)
			continue
		}
		p.duty.lock.believe(t.noParent())
		t.close(p.duty.lock)
	}
}
