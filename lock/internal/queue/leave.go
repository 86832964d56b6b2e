package queue

import (
	"bytes"
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

	version, acknowledged int32  // data version of the node: the probable one, and the last acknowledged
	pending               []byte // data of a write of unknown outcome; nil: none
	deletesParent         bool   // delete the anchor and the parent in the same transaction
	tried                 bool   // an attempt may have been applied
}

// newExit returns the exit of an entry. The caller must close its lock state; leave does that.
func newExit(e *Entry) *exit {
	q := e.queue
	x := &exit{Queue: q, e: e, lock: q.open(e.Lock(), e.keepParent)}
	if e.generated && e.Kind != znode.Semaphore {
		x.lock.recall(parent{state: present, kind: e.Kind, generation: e.generation(), adopted: e.adopted})
	}
	x.version, x.acknowledged, x.pending = e.LastWrite()
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
	defer x.close(x.lock)
	err := x.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error { return x.attempt(ctx) })
	if err == nil || errors.Is(err, lease.ErrRemoved) || errors.Is(err, lease.ErrTaken) {
		return err
	}
	return fmt.Errorf("delete %s: %w", x.e.Path, err)
}

// ops returns the operations that delete the entry, and also the parent and its anchor if
// deletesParent is set.
func (x *exit) ops() []any {
	ops := append(make([]any, 0, 3), &zk.DeleteRequest{Path: x.e.Path, Version: x.version})
	if x.deletesParent {
		ops = append(ops, deleteParentOps(x.e.parent(), x.e.generation(), x.e.parentVersion)...)
	}
	return ops
}

// attempt sends one transaction. Its error is for Retry.
func (x *exit) attempt(ctx context.Context) error {
	_, err := x.Conn.Multi(ctx, x.ops()...)
	if err == nil {
		x.gone()
		return nil
	}
	return x.refused(ctx, err)
}

// refused handles the error of an attempt, and returns the error for Retry.
func (x *exit) refused(ctx context.Context, err error) error {
	op, cause := zkconn.RefusedOp(err)
	switch {
	case zkconn.OutcomeOf(err) == zkconn.Ambiguous:
		x.tried = true
		return err
	case op > 0: // another contender has joined, or an ACL forbids to delete the parent
		x.deletesParent = false
		x.lock.sawOthers(true)
		return zkconn.ErrAgain
	case op == 0:
		return x.resolveDelete(ctx, cause)
	}
	return err
}

// resolveDelete handles the server's refusal to delete the entry, and returns the error for Retry.
// If the version was wrong, it reads the node to learn the version and which client wrote it.
func (x *exit) resolveDelete(ctx context.Context, cause error) error {
	switch {
	case errors.Is(cause, zk.ErrNoNode) && !x.e.Lapsed() && (x.tried || x.e.IsOver()):
		x.deletesParent = false
		x.gone()
		return nil
	case errors.Is(cause, zk.ErrNoNode):
		return zkconn.Final(lease.ErrRemoved)
	case errors.Is(cause, zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("%w: the lock's ACL does not let us", zkconn.ErrDenied))
	case !errors.Is(cause, zk.ErrBadVersion):
		return zkconn.Final(cause)
	}
	n, err := x.Conn.GetSynced(ctx, x.e.Path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		x.tried = true
	case err != nil:
		return zkconn.Final(err)
	case n.Stat.Version == x.acknowledged || x.pending != nil && bytes.Equal(n.Data, x.pending):
		x.version = n.Stat.Version
	default:
		if why := x.e.OverwrittenBy(n.Data); !errors.Is(why, lease.ErrBroken) {
			return zkconn.Final(why)
		}
		x.version = n.Stat.Version // the force-release waits until the node has gone
	}
	return zkconn.ErrAgain
}

// gone records that the entry has left. If the parent may be empty now, the client deletes the
// parent a second later, unless the lock is used again.
func (x *exit) gone() {
	x.lock.noteLeft(x.Clock.Mono())
	if x.deletesParent {
		x.lock.believe(parent{})
		x.tidy.checkLater(x.e.parent(), true) // only to remember for a second that the lock was used
		return
	}
	x.tidy.checkLater(x.e.parent(), x.e.keepParent && !x.e.Name().Overflowed())
}

// CheckParentLater makes the client delete the entry's parent, about a second later, if the parent
// is empty then. It is for an entry that another client has deleted or written.
func (e *Entry) CheckParentLater() { e.queue.tidy.checkLater(e.parent(), e.keepParent) }

// LeaveAll deletes the nodes of entries of different locks, in one transaction if possible. For
// each entry it returns the result that Leave would have.
func (q *Queue) LeaveAll(ctx context.Context, es []*Entry) []error {
	errs := make([]error, len(es))
	var wg sync.WaitGroup
	for _, x := range q.leaveTogether(ctx, es) {
		wg.Go(func() { errs[slices.Index(es, x.e)] = x.leave(ctx) })
	}
	wg.Wait()
	return errs
}

// leaveTogether deletes entries in one transaction, with the parents of lone entries. It returns
// the entries that must leave one by one: a single entry, each entry that the server refused to
// delete, or all remaining ones after any other failure. If the server refuses to delete a parent,
// all parents are left for later: most likely several have new contenders.
func (q *Queue) leaveTogether(ctx context.Context, es []*Entry) (apart []*exit) {
	left := make([]*exit, len(es))
	for i, e := range es {
		left[i] = newExit(e)
	}
	if len(left) == 1 {
		return left
	}
	for len(left) > 0 {
		var ops []any
		var whose []int
		for i, x := range left {
			for _, op := range x.ops() {
				ops, whose = append(ops, op), append(whose, i)
			}
		}
		_, err := q.Conn.Multi(ctx, ops...)
		if err == nil {
			break
		}
		op, _ := zkconn.RefusedOp(err)
		switch {
		case op < 0:
			for _, x := range left {
				x.tried = x.tried || zkconn.OutcomeOf(err) == zkconn.Ambiguous
			}
			return append(apart, left...)
		case op > 0 && whose[op-1] == whose[op]:
			left[whose[op]].lock.sawOthers(true)
			for _, x := range left {
				x.deletesParent = false
			}
		default:
			apart = append(apart, left[whose[op]])
			left = slices.Delete(left, whose[op], whose[op]+1)
		}
	}
	for _, x := range left {
		x.gone()
		q.close(x.lock)
	}
	return apart
}

// removeWorkers is the largest number of concurrent transactions of removals. A client that closes
// may have a hundred thousand entries.
const removeWorkers = 8

// removals has the ended entries whose nodes must be deleted in the background.
type removals struct {
	*Queue
	mu      sync.Mutex
	queued  []*Entry
	workers int

	leftBehind atomic.Bool // see Stats
}

// noteLeftBehind records, once the client is closing, that a node is left to expire. It ignores
// ErrClosed: then the owner of the connection has closed the connection.
func (r *removals) noteLeftBehind(why error) {
	if r.Closing.Err() != nil && !errors.Is(why, zkconn.ErrClosed) {
		r.leftBehind.Store(true)
	}
}

// Remove deletes the node of an ended entry in the background. Entries that are removed at the same
// time share transactions. The client's Close waits for the deletion. Once the client has closed
// and no background work is left, Remove does nothing.
func (e *Entry) Remove() {
	r := &e.queue.removals
	if !r.Tasks.Enter() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queued = append(r.queued, e)
	if r.workers < removeWorkers {
		r.workers++
		go r.work()
	}
}

// fitting returns the number of the first entries that one transaction deletes, with their parents
// and anchors.
func fitting(es []*Entry) (n int) {
	for bytes := 0; n < len(es); n++ {
		if bytes += 3 * (len(es[n].Path) + 20); n > 0 && bytes > zkconn.BatchBytes {
			break
		}
	}
	return n
}

// work deletes the queued nodes, in batches, and returns when none is queued.
func (r *removals) work() {
	for {
		r.mu.Lock()
		n := fitting(r.queued)
		batch := r.queued[:n:n]
		if r.queued = r.queued[n:]; n == 0 {
			r.queued = nil
			r.workers--
		}
		r.mu.Unlock()
		if n == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), batch[0].patience())
		apart := r.leaveTogether(ctx, batch)
		cancel()
		for range n - len(apart) {
			r.Tasks.Leave()
		}
		for _, x := range apart {
			go x.remove()
		}
	}
}

// remove deletes the node of an entry. If another client has deleted the node, that is a success.
// Any other failure is logged as a warning. In both cases the parent is checked later.
func (x *exit) remove() {
	defer x.Tasks.Leave()
	ctx, cancel := context.WithTimeout(context.Background(), x.e.patience())
	defer cancel()
	err := x.leave(ctx)
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
	q := e.queue
	ok := q.Tasks.Go(func() {
		defer e.CheckParentLater()
		ctx, cancel := context.WithTimeout(context.Background(), e.patience())
		defer cancel()
		err := q.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
			n, err := q.Conn.GetSynced(ctx, e.Path)
			if errors.Is(err, zk.ErrNoNode) || err == nil && !errors.Is(e.OverwrittenBy(n.Data), lease.ErrBroken) {
				return nil
			} else if err != nil {
				return err
			}
			_, err = q.Conn.Multi(ctx, &zk.DeleteRequest{Path: e.Path, Version: n.Stat.Version})
			if _, cause := zkconn.RefusedOp(err); errors.Is(cause, zk.ErrNoNode) || errors.Is(cause, zk.ErrBadVersion) {
				return zkconn.ErrAgain
			}
			return err
		})
		if err != nil {
			q.removals.noteLeftBehind(err)
			q.Log.Warn().Err(err).Str("lock", e.Lock()).Str("entry", e.Path).
				Msg("an entry that another client has written could not be read; if it was force-released it is left to expire")
		}
	})
	if !ok {
		e.CheckParentLater()
	}
}

// usedAgain is the time for which a lock's parent stays after the lock's last use.
const usedAgain = time.Second
