package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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

// newExit returns the exit of an entry. The caller must close its lock state; leave does that.
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

// Leave deletes the entry's node. It also deletes the anchor and the parent, see
// deletesParentOnLeave. It retries over reconnects until ctx ends. It fails with ErrRemoved if the
// node was already gone, and with ErrTaken if another client has written the node, which then
// stays. A missing node is a success if the reply to an earlier attempt was lost, or if the lease
// has ended since the unlock. It is a failure if the lease may have ended before the unlock.
func (q *Queue) Leave(ctx context.Context, e *Entry) error { return newExit(e).leave(ctx) }

func (x *exit) leave(ctx context.Context) error {
	replies, err := x.Conn.Share(ctx, x.member())
	return x.leaveAfter(ctx, replies, err)
}

// leaveAfter is leave after the first attempt, with its replies and its error.
func (x *exit) leaveAfter(ctx context.Context, replies []zk.MultiResponse, first error) error {
	defer x.close(x.lock)
	next := func() error { return x.answered(ctx, replies, first) }
	err := x.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		try := next
		next = func() error { return x.attempt(ctx) }
		return try()
	})
	if err == nil || errors.Is(err, lease.ErrRemoved) || errors.Is(err, lease.ErrTaken) {
		return err
	}
	return fmt.Errorf("delete %s: %w", x.e.Path, err)
}

// ops returns the operations that delete the entry, and also the parent and its anchor if
// deletesParent is set.
func (x *exit) ops() []any {
	ops := x.last.Ops()
	if x.deletesParent {
		ops = append(ops, deleteParentOps(x.e.parent(), x.e.generation(), x.e.parentVersion)...)
	}
	return ops
}

// attempt sends one transaction. Its error is for Retry.
func (x *exit) attempt(ctx context.Context) error {
	replies, err := x.Conn.Share(ctx, x.member())
	return x.answered(ctx, replies, err)
}

// member returns the operations for a shared transaction. That the entry is still alone is a guess:
// if another contender has joined, or an ACL forbids to delete the parent, only the entry is deleted.
func (x *exit) member() zkconn.Member {
	return zkconn.Member{
		Ops: x.ops(), Locks: []string{x.e.parent()}, Sole: x.deletesParent, Guess: x.deletesParent, Sure: 1, Stays: true,
	}
}

// answered handles the answer to an attempt, and returns the error for Retry.
func (x *exit) answered(ctx context.Context, replies []zk.MultiResponse, err error) error {
	if err != nil {
		return x.refused(ctx, err)
	}
	x.left(replies)
	return nil
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

// LeaveAll deletes the nodes of entries of different locks, in one transaction if possible. For
// each entry it returns the result that Leave would have. The entries are sorted by the names of
// their locks. The last one leaves first, because a lock's node below another lock's must go first.
func (q *Queue) LeaveAll(ctx context.Context, es []*Entry) []error {
	xs, members, errs := make([]*exit, len(es)), make([]zkconn.Member, len(es)), make([]error, len(es))
	es = slices.Clone(es)
	slices.Reverse(es)
	defer slices.Reverse(errs)
	for i, e := range es {
		xs[i] = newExit(e)
		members[i] = xs[i].member()
	}
	var left sync.WaitGroup
	left.Add(len(es))
	leave := func(i int, replies []zk.MultiResponse, err error) {
		go func() {
			defer left.Done()
			errs[i] = xs[i].leaveAfter(ctx, replies, err)
		}()
	}
	if err := q.Conn.Ready(ctx); err != nil {
		for i := range xs {
			leave(i, nil, err)
		}
	} else {
		q.Conn.Submit(ctx, members, leave)
	}
	left.Wait()
	return errs
}

// removals counts what could not be removed.
type removals struct {
	*Queue
	leftBehind atomic.Bool // see Stats
}

// noteLeftBehind records, once the client is closing, that a node is left to expire. It ignores
// ErrClosed: then the owner of the connection has closed the connection.
func (r *removals) noteLeftBehind(why error) {
	if r.Closing.Err() != nil && !errors.Is(why, zkconn.ErrClosed) {
		r.leftBehind.Store(true)
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
	q.Conn.Submit(context.Background(), []zkconn.Member{x.member()}, func(_ int, replies []zk.MultiResponse, err error) {
		if err == nil { // no goroutine for each of a hundred thousand entries
			x.left(replies)
			x.close(x.lock)
			q.Tasks.Leave()
			return
		}
		go x.remove(err)
	})
}

// remove deletes the node of an entry, after a first attempt with the error first. If another client
// has deleted the node, that is a success. Any other failure is logged as a warning. In both cases
// the parent is checked later.
func (x *exit) remove(first error) {
	defer x.Tasks.Leave()
	ctx, cancel := context.WithTimeout(context.Background(), x.e.patience())
	defer cancel()
	err := x.leaveAfter(ctx, nil, first)
	if err == nil {
		return
	}
	x.e.CheckParentLater()
	if errors.Is(err, lease.ErrRemoved) {
		return
	}
	x.Log.Warn().Err(err).Str("lock", x.e.Lock()).Str("entry", x.e.Path).Msg("an entry could not be deleted, and is left to expire")
	if !errors.Is(err, lease.ErrTaken) {
		x.removals.noteLeftBehind(err)
	}
}

// removeIfBroken reads, in the background, an entry that another client has written. If the hold
// was force-released, it deletes the node, because the force-release waits for that.
func (e *Entry) removeIfBroken() {
	e.removeIf(func(n zkconn.Node) bool { return errors.Is(e.OverwrittenBy(n.Data), lease.ErrBroken) },
		"an entry that another client has written could not be read; if it was force-released it is left to expire")
}

// removeIf reads, in the background, the node of an ended entry, and deletes it on the version that
// it has read, if mayGo returns true. left is the log message if that fails.
func (e *Entry) removeIf(mayGo func(zkconn.Node) bool, left string) {
	q := e.queue
	ok := q.Tasks.Go(func() {
		defer e.CheckParentLater()
		ctx, cancel := context.WithTimeout(context.Background(), e.patience())
		defer cancel()
		if err := lease.DeleteIf(ctx, q.Conn, e.Path, mayGo); err != nil {
			q.removals.noteLeftBehind(err)
			q.Log.Warn().Err(err).Str("lock", e.Lock()).Str("entry", e.Path).Msg(left)
		}
	})
	if !ok {
		e.CheckParentLater()
	}
}

// usedAgain is the time for which a lock's parent stays after the lock's last use.
const usedAgain = time.Second
