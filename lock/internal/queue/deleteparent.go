package queue

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// deletesParentOnLeave reports whether the transaction in which an entry leaves also deletes the
// parent and the anchor: the entry joined alone, the lock is not in frequent use or its counter is
// worn, and the parent need not stay. The server refuses the transaction if another contender has joined. Then
// deleteOwedParents deletes the parent later.
func (x *exit) deletesParentOnLeave() bool {
	e := x.e
	return e.alone && !e.keepParent && (e.Name().Seq >= znode.WornCounter || !x.lock.stays(x.Clock.Mono()))
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

// deleteOwedParents deletes parents, which share transactions. It returns when all outcomes are known,
// or ctx ends.
func (t *tidier) deleteOwedParents(ctx context.Context, empty []emptyParent, progress func()) {
	members := make([]zkconn.Member, len(empty))
	for i, p := range empty {
		members[i] = zkconn.Member{Ops: p.ops, Locks: []string{p.path}, Sole: true, Stays: true}
	}
	var all sync.WaitGroup
	all.Add(len(empty))
	t.Conn.Submit(ctx, members, func(i int, _ []zk.MultiResponse, err error) {
		go func() {
			defer all.Done()
			t.deleteParent(ctx, empty[i], members[i], err)
			progress()
		}()
	})
	all.Wait()
}

// deleteParent handles the outcome of the first attempt to delete a parent, and tries again if that is
// unknown. A refusal ends the duty: mostly another contender has joined, and owes the check then.
func (t *tidier) deleteParent(ctx context.Context, p emptyParent, m zkconn.Member, err error) {
	first := true
	err = t.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		if !first {
			_, err = t.Conn.Share(ctx, m)
		}
		first = false
		if op, cause := zkconn.RefusedOp(err); op >= 0 {
			if errors.Is(cause, zk.ErrNoAuth) {
				t.Log.Debug().Err(cause).Str("parent", p.path).Msg("an empty parent could not be deleted")
			}
			return nil
		} else if err == nil {
			p.duty.lock.believe(t.noParent())
		}
		return err
	})
	if err != nil {
		t.notTidied(p.path, p.duty, err)
		return
	}
	t.close(p.duty.lock)
}
