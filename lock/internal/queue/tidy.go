package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// tidier has the parents that may be empty since an entry left. The client checks each parent when
// it has not used the lock for a second.
type tidier struct {
	mu      sync.Mutex
	owed    map[string]*duty // by the path of the parent
	running bool
}

// duty is a parent that may be empty.
type duty struct {
	lock *lockState    // kept open meanwhile, for the belief about the parent
	due  time.Duration // monotonic time of the check
	keep bool          // there is nothing to check: only keep the lock state open until due

	session int64 // session in which the entry had gone
}

// tidyBatch is the largest number of parents that one transaction deletes, and of concurrent reads.
const tidyBatch = 16

// lastMoments is the time for which requests that tidy up continue after the client began to close.
const lastMoments = time.Second

// owe records that a parent may be empty. Once this client has not used the lock for a second, it
// deletes the parent if the parent is empty. With keep, owe only keeps the lock state open for a
// second.
func (q *Queue) owe(path string, keep bool) {
	t := &q.tidy
	now := q.Clock.Mono()
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.owed[path]
	if d == nil {
		d = &duty{lock: q.open(path[len(q.Root)+1:], keep), keep: keep}
		t.owed[path] = d
	}
	d.due, d.keep, d.session = now+usedAgain, keep, q.Conn.Session()
	if !t.running {
		t.running = q.Tasks.Go(q.tidyUp)
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
func (q *Queue) tidyUp() {
	for {
		closing := q.Closing.Err() != nil
		due, wait, done := q.tidy.next(q.Clock.Mono(), closing)
		if done {
			return
		}
		if len(due) > 0 {
			q.tidyAll(due)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-q.Closing.Done():
		}
		timer.Stop()
	}
}

// tidyAll deletes the parents that are empty. It postpones a parent whose lock is in use. notTidied
// handles each error.
func (q *Queue) tidyAll(due map[string]*duty) {
	ctx, cancel := q.forTidying()
	defer cancel()
	var mu sync.Mutex
	var empty []emptyParent
	var wg sync.WaitGroup
	slots := make(chan struct{}, tidyBatch)
	for path, d := range due {
		switch {
		case d.keep:
			q.close(d.lock)
			continue
		case q.inUse(d.lock) && q.Closing.Err() == nil:
			q.postpone(path, d)
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ops, err := q.readEmpty(ctx, path, d)
			switch {
			case err != nil:
				q.notTidied(path, d, err)
			case ops == nil:
				q.close(d.lock)
			default:
				mu.Lock()
				empty = append(empty, emptyParent{path, d, ops})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for batch := range slices.Chunk(empty, tidyBatch) {
		q.deleteOwedParents(batch)
	}
}

// forTidying returns the context of requests that tidy up. It ends after UnlockTimeout, or
// lastMoments after the client began to close if that is earlier.
func (q *Queue) forTidying() (context.Context, func()) {
	ctx, cancel := context.WithTimeout(context.Background(), q.UnlockTimeout)
	stop := context.AfterFunc(q.Closing, func() { time.AfterFunc(lastMoments, cancel) })
	return ctx, func() {
		stop()
		cancel()
	}
}

// notTidied handles the error of a check. It leaves the parent to the reaper if the server refused
// the request or the client closes, and otherwise postpones the duty.
func (q *Queue) notTidied(path string, d *duty, err error) {
	if zkconn.OutcomeOf(err) == zkconn.Refused || q.Closing.Err() != nil {
		q.Log.Debug().Err(err).Str("parent", path).Msg("the lock's parent may be empty, and is left to the reaper")
		q.close(d.lock)
		return
	}
	q.postpone(path, d)
}

// postpone puts a duty back: the parent is checked a second later.
func (q *Queue) postpone(path string, d *duty) {
	t := &q.tidy
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owed[path] != nil { // another entry has left meanwhile
		q.close(d.lock)
		return
	}
	d.due = q.Clock.Mono() + usedAgain
	t.owed[path] = d
}

// inUse reports whether a request of this client uses the lock; a Watcher does not count. When the
// request ends, it owes the check again.
func (q *Queue) inUse(s *lockState) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.users-s.watchers > 1
}

// readEmpty reads a parent, and returns the operations that delete it; none if it stays. It syncs
// first if the session has changed since the entry left: the new server may still show the entry.
func (q *Queue) readEmpty(ctx context.Context, path string, d *duty) ([]any, error) {
	n, err := q.Conn.Get(ctx, path)
	if q.Conn.Session() != d.session {
		n, err = q.Conn.GetSynced(ctx, path)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parentDeletion(path, n, false), nil
}
