package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// exit is the state of an entry that leaves the queue.
type exit struct {
	*Queue
	e    *Entry
	lock *lockState

	last          lease.Last
	deletesParent bool // delete the anchor and the parent in the same transaction
}

// newExit returns the exit of an entry. The caller must close its lock state; submit and retry do that.
func newExit(e *Entry) *exit {
	q := e.queue
	x := &exit{Queue: q, e: e, lock: q.open(e.Lock(), e.keepParent)}
	if e.parentVersion > 0 && e.Kind != znode.Semaphore {
		p := parent{state: present, kind: e.Kind, generation: e.generation(), adopted: e.adopted, version: e.parentVersion}
		if !e.alone {
			p.shared = sharedFor
		}
		x.lock.recall(p)
	}
	x.last = e.Last(nil)
	x.deletesParent = x.deletesParentOnLeave()
	return x
}

// deletesParentOnLeave reports whether the transaction in which an entry leaves also deletes the
// parent and the anchor: the entry joined alone, the lock is not in frequent use or its counter is
// worn, and the parent need not stay. The server refuses the transaction if another contender has joined. Then
// tidyAll deletes the parent later.
func (x *exit) deletesParentOnLeave() bool {
	e := x.e
	return e.alone && !e.keepParent && (e.Name().Seq >= znode.WornCounter || !x.lock.stays(x.Clock.Mono()))
}

// deleteParentOps returns the operations that delete a parent, on the given version, and its
// anchor.
func deleteParentOps(path string, generation string, version int32) []any {
	return []any{
		&zk.DeleteRequest{Path: anchorPath(path, generation), Version: -1},
		&zk.DeleteRequest{Path: path, Version: version},
	}
}

// Leave deletes the entry's node. It also deletes the anchor and the parent, see
// deletesParentOnLeave. It retries over reconnects until ctx ends. It fails with ErrRemoved if the
// node was already gone, and with ErrTaken if another client has written the node, which then
// stays. A missing node is a success if the reply to an earlier attempt was lost, or if the lease
// has ended since the unlock. It is a failure if the lease may have ended before the unlock.
func (q *Queue) Leave(ctx context.Context, e *Entry) error {
	return q.LeaveAll(ctx, []*Entry{e})[0]
}

// LeaveAll deletes the nodes of entries of different locks, in one transaction if possible. For
// each entry it returns the result that Leave would have. The entries are sorted by the names of
// their locks. The last one leaves first, because a lock's node below another lock's must go first.
func (q *Queue) LeaveAll(ctx context.Context, es []*Entry) []error {
	errs, last := make([]error, len(es)), len(es)-1
	xs := make([]*exit, len(es))
	for i, e := range es {
		xs[last-i] = newExit(e)
	}
	var left sync.WaitGroup
	left.Add(len(xs))
	_ = q.Conn.Ready(ctx) // without a session each entry waits for one
	q.submit(ctx, xs, func(i int, first error) {
		if first != nil {
			first = xs[i].retry(ctx, first)
		}
		errs[last-i] = first
		left.Done()
	})
	left.Wait()
	return errs
}

// submit sends the first attempt of each exit; they share a transaction if they fit. It calls
// answered once for each exit, with its index and nil or the attempt's error. In the second case the
// call has a goroutine of its own, and must call retry.
func (q *Queue) submit(ctx context.Context, xs []*exit, answered func(i int, err error)) {
	members := make([]zkconn.Member, len(xs))
	for i, x := range xs {
		members[i] = x.member()
	}
	q.Conn.Submit(ctx, members, func(i int, replies []zk.MultiResponse, err error) {
		if err != nil { // no goroutine for each of a hundred thousand entries that leave at once
			go answered(i, err)
			return
		}
		xs[i].left(replies)
		xs[i].close(xs[i].lock)
		answered(i, nil)
	})
}

// retry handles the error of the first attempt, tries again if that helps, and closes the lock state.
func (x *exit) retry(ctx context.Context, first error) error {
	defer x.close(x.lock)
	err := x.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		if failed := first; failed != nil {
			first = nil
			return x.refused(ctx, failed)
		}
		return x.attempt(ctx)
	})
	if err == nil || errors.Is(err, lease.ErrRemoved) || errors.Is(err, lease.ErrTaken) {
		return err
	}
	return fmt.Errorf("delete %s: %w", x.e.Path, err)
}

// attempt sends one transaction. Its error is for Retry.
func (x *exit) attempt(ctx context.Context) error {
	replies, err := x.Conn.Share(ctx, x.member())
	if err != nil {
		return x.refused(ctx, err)
	}
	x.left(replies)
	return nil
}

// member returns the operations for a shared transaction: the delete of the entry, and also of the
// anchor and the parent if deletesParent is set. That the entry is still alone is a guess: if another
// contender has joined, or an ACL forbids to delete the parent, only the entry is deleted.
func (x *exit) member() zkconn.Member {
	m := zkconn.Member{Ops: x.last.Ops(), Locks: []string{x.e.parent()}, Sole: x.deletesParent, Guess: x.deletesParent, Sure: 1, Stays: true}
	if x.deletesParent {
		m.Ops = append(m.Ops, deleteParentOps(x.e.parent(), x.e.generation(), x.e.parentVersion)...)
	}
	return m
}

// left handles the replies to an attempt that was applied.
func (x *exit) left(replies []zk.MultiResponse) {
	if x.deletesParent && len(replies) == 1 {
		x.deletesParent = false
		x.lock.parentStayed()
	}
	x.gone()
}

// refused handles the error of an attempt, and returns the error for Retry.
func (x *exit) refused(ctx context.Context, err error) error {
	if err = x.last.Failed(ctx, err); err == nil { // an earlier attempt was applied
		x.deletesParent = false
		x.gone()
	}
	return err
}

// gone records that the entry has left. If the parent may be empty now, the client deletes the
// parent a second later, unless the lock is used again.
func (x *exit) gone() {
	x.lock.noteLeft(x.Clock.Mono())
	if x.deletesParent {
		x.lock.believe(x.noParent())
		x.tidy.checkLater(x.e.parent(), true) // only to remember for a second that the lock was used
		return
	}
	x.tidy.checkLater(x.e.parent(), x.e.keepParent && !x.e.Name().Overflowed())
}

// CheckParentLater makes the client delete the entry's parent, about a second later, if the parent
// is empty then. It is for an entry that another client has deleted or written.
func (e *Entry) CheckParentLater() { e.queue.tidy.checkLater(e.parent(), e.keepParent) }

// noteLeftBehind records, once the client is closing, that a node is left to expire. It ignores
// ErrClosed: then the owner of the connection has closed the connection.
func (q *Queue) noteLeftBehind(why error) {
	if q.Closing.Err() != nil && !errors.Is(why, zkconn.ErrClosed) {
		q.leftBehind.Store(true)
	}
}

// Remove deletes the node of an ended entry in the background. The client's Close waits for the
// deletion. Once the client has closed and no background work is left, Remove does nothing.
func (e *Entry) Remove() {
	q := e.queue
	if !q.Tasks.Enter() {
		return
	}
	x := newExit(e)
	q.submit(context.Background(), []*exit{x}, func(_ int, err error) {
		defer q.Tasks.Leave()
		if err != nil {
			x.remove(err)
		}
	})
}

// remove deletes the node of an entry, after a first attempt with the error first. If another client
// has deleted the node, that is a success. Any other failure is logged as a warning. In both cases
// the parent is checked later.
func (x *exit) remove(first error) {
	ctx, cancel := context.WithTimeout(context.Background(), x.e.patience())
	defer cancel()
	err := x.retry(ctx, first)
	if err == nil {
		return
	}
	x.e.CheckParentLater()
	if errors.Is(err, lease.ErrRemoved) {
		return
	}
	x.Log.Warn().Err(err).Str("lock", x.e.Lock()).Str("entry", x.e.Path).Msg("an entry could not be deleted, and is left to expire")
	if !errors.Is(err, lease.ErrTaken) {
		x.noteLeftBehind(err)
	}
}

// removeIf reads, in the background, the node of an entry that has ended, or a guard, and deletes it on
// the version that it has read, if mayGo returns true. left is the log message if that fails.
func (q *Queue) removeIf(path string, keepParent bool, patience time.Duration, mayGo func(zkconn.Node) bool, left string) {
	parent := path[:strings.LastIndexByte(path, '/')]
	ok := q.Tasks.Go(func() {
		defer q.tidy.checkLater(parent, keepParent)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := lease.DeleteIf(ctx, q.Conn, path, mayGo); err != nil {
			if _, guard := znode.AnchorOf(path[len(parent)+1:]); !guard { // a guard ends with the session
				q.noteLeftBehind(err)
			}
			q.Log.Warn().Err(err).Str("lock", parent[len(q.Root)+1:]).Str("entry", path).Msg(left)
		}
	})
	if !ok {
		q.tidy.checkLater(parent, keepParent)
	}
}

// removeGuard deletes a guard in the background, unless an adoption whose reply was lost has made it the
// anchor.
func (c *contender) removeGuard(guard string) {
	c.removeIf(guard, c.KeepParent, c.patience(&c.Terms), func(n zkconn.Node) bool { return n.Stat.EphemeralOwner != 0 },
		"a guard could not be deleted; it ends with the session")
}

// usedAgain is the time for which a lock's parent stays after the lock's last use.
const usedAgain = time.Second
