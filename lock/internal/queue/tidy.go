package queue

import (
	"context"
	"errors"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// tidier has the parents that may be empty since an entry left. The client checks each parent when
// it has not used the lock for a second.
type tidier struct {
	*Queue
	mu      sync.Mutex
	owed    map[string]*duty // by the path of the parent
	running bool
	left    atomic.Int64 // parents that the client could not check while it closed
}

// duty is a parent that may be empty.
type duty struct {
	lock *lockState    // kept open meanwhile, for the belief about the parent
	due  time.Duration // monotonic time of the check
	keep bool          // there is nothing to check: only keep the lock state open until due

	session int64 // session in which the entry had gone
}

const (
	// tidyAtOnce is the largest number of parents that are checked concurrently.
	tidyAtOnce = 256
	// tidyPatience is the time for which a client that closes waits for the next reply to a check.
	tidyPatience = time.Second
)

// checkLater records that a parent may be empty. Once this client has not used the lock for a
// second, it deletes the parent if the parent is empty. With keep, it only keeps the lock state
// open for a second.
func (t *tidier) checkLater(path string, keep bool) {
	now := t.Clock.Mono()
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.owed[path]
	if d == nil {
		d = &duty{lock: t.open(path[len(t.Root)+1:], keep)}
		t.owed[path] = d
	}
	d.due, d.keep, d.session = now+usedAgain, keep, t.Conn.Session()
	if !t.running {
		t.running = t.Tasks.Go(t.tidyUp)
	}
}

// next removes and returns the duties that are due, or all duties if all is set. wait is the time
// until the next call. If there was no duty, it records that tidyUp ends, and returns done.
func (t *tidier) next(now time.Duration, all bool) (due map[string]*duty, wait time.Duration, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	due, wait = map[string]*duty{}, usedAgain
	for path, d := range t.owed {
		if d.due <= now || all {
			due[path] = d
			delete(t.owed, path)
		} else {
			wait = min(wait, d.due-now)
		}
	}
	if len(due) == 0 && len(t.owed) == 0 {
		t.running = false
		return nil, 0, true
	}
	return due, max(wait, tidyEvery), false
}

// tidyEvery is the shortest time between two checks for due duties, so that parents share
// transactions.
const tidyEvery = 20 * time.Millisecond

// tidyUp checks the parents when their duties are due, or when the client closes, until no duty is
// left.
func (t *tidier) tidyUp() {
	for {
		closing := t.Closing.Err() != nil
		due, wait, done := t.next(t.Clock.Mono(), closing)
		if done {
			if n := t.left.Swap(0); n > 0 {
				t.Log.Warn().Int64("locks", n).Msg("the client closes, and leaves the nodes of unused locks to the reaper")
			}
			return
		}
		if len(due) > 0 {
			t.tidyAll(due)
			continue
		}
		_ = pause(t.Closing, wait)
	}
}

// tidyAll checks the parents, tidyAtOnce of them concurrently; their deletes share transactions. It
// postpones a parent whose lock is in use.
func (t *tidier) tidyAll(due map[string]*duty) {
	ctx, progress, end := t.forTidying()
	defer end()
	above := t.above(due)
	var checks sync.WaitGroup
	slots := make(chan struct{}, tidyAtOnce)
	for parent, d := range due {
		switch {
		case d.keep:
			t.close(d.lock)
			continue
		case t.inUse(d.lock) && t.Closing.Err() == nil:
			t.postpone(parent, d)
			continue
		}
		slots <- struct{}{}
		checks.Go(func() {
			defer func() { <-slots }()
			t.tidyOne(ctx, parent, d, above[parent])
			progress()
		})
	}
	checks.Wait()
}

// tidyOne deletes a parent if it is empty. A parent above other nodes that this client checks is checked
// again when those have gone. notTidied handles an error.
func (t *tidier) tidyOne(ctx context.Context, path string, d *duty, above bool) {
	ops, err := t.readEmpty(ctx, path, d)
	if err == nil && ops != nil {
		err = t.deleteParent(ctx, path, d, ops)
	}
	switch {
	case err != nil:
		t.notTidied(path, d, err)
	case ops == nil && above:
		t.postpone(path, d)
	default:
		t.close(d.lock)
	}
}

// deleteParent deletes a parent. A refusal ends the duty: mostly another contender has joined, and owes
// the check then.
func (t *tidier) deleteParent(ctx context.Context, path string, d *duty, ops []any) error {
	return t.Conn.Retry(ctx, zkconn.DefaultBackoff, func() error {
		_, err := t.Conn.Share(ctx, zkconn.Member{Ops: ops, Locks: []string{path}, Sole: true, Stays: true})
		if op, cause := zkconn.RefusedOp(err); op >= 0 {
			if errors.Is(cause, zk.ErrNoAuth) {
				t.Log.Debug().Err(cause).Str("parent", path).Msg("an empty parent could not be deleted")
			}
			return nil
		} else if err == nil {
			d.lock.believe(t.noParent())
		}
		return err
	})
}

// above returns the paths above the nodes that this client checks, now or later.
func (t *tidier) above(due map[string]*duty) map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	above := map[string]bool{}
	for _, duties := range []map[string]*duty{due, t.owed} {
		for below, d := range duties {
			for p := path.Dir(below); !d.keep && len(p) > len(t.Root) && !above[p]; p = path.Dir(p) {
				above[p] = true
			}
		}
	}
	return above
}

// forTidying returns the context of requests that tidy up. It ends after nine tenths of UnlockTimeout.
// Once the client has begun to close, it also ends if progress is not called for tidyPatience.
func (t *tidier) forTidying() (ctx context.Context, progress, end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), t.UnlockTimeout*9/10)
	var timer atomic.Pointer[time.Timer]
	stop := context.AfterFunc(t.Closing, func() { timer.Store(time.AfterFunc(tidyPatience, cancel)) })
	return ctx, func() {
			if timer := timer.Load(); timer != nil {
				timer.Reset(tidyPatience)
			}
		}, func() {
			stop()
			cancel()
		}
}

// notTidied handles the error of a check. It leaves the parent to the reaper if the server refused
// the request or the client closes, and otherwise postpones the duty.
func (t *tidier) notTidied(path string, d *duty, err error) {
	switch {
	case t.Closing.Err() != nil: // the log tells the number alone: there may be thousands
		t.left.Add(1)
		t.close(d.lock)
	case zkconn.OutcomeOf(err) == zkconn.Refused:
		t.Log.Debug().Err(err).Str("parent", path).Msg("the lock's parent may be empty, and is left to the reaper")
		t.close(d.lock)
	default:
		t.postpone(path, d)
	}
}

// postpone puts a duty back: the parent is checked a second later.
func (t *tidier) postpone(path string, d *duty) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owed[path] != nil { // another entry has left meanwhile
		t.close(d.lock)
		return
	}
	d.due = t.Clock.Mono() + usedAgain
	t.owed[path] = d
}

// readEmpty reads a parent, and returns the operations that delete it; none if it stays. It syncs
// first if the session has changed since the entry left: the new server may still show the entry.
func (t *tidier) readEmpty(ctx context.Context, path string, d *duty) ([]any, error) {
	n, err := t.Conn.Get(ctx, path)
	if t.Conn.Session() != d.session {
		n, err = t.Conn.GetSynced(ctx, path)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parentDeletion(path, n, false), nil
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
