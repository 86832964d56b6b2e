package queue

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Limits of the departures of entries that nobody waits for. A client that closes may
// have a hundred thousand.
const (
	departBatch   = 100 // entries in one transaction
	departWorkers = 8   // transactions under way at once
)

// departures are entries that have ended and whose nodes are to be deleted in the
// background.
type departures struct {
	mu      sync.Mutex
	waiting []*Entry
	workers int
}

// Discard deletes in the background the node of an entry that has ended. Many at once
// share transactions. Who closes the client waits for it.
func (q *Queue) Discard(e *Entry) {
	if !q.Tasks.Enter() {
		return
	}
	d := &q.leaving
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, e)
	if d.workers < departWorkers {
		d.workers++
		go q.depart()
	}
}

// depart deletes what waits to be deleted, until nothing does.
func (q *Queue) depart() {
	d := &q.leaving
	for {
		d.mu.Lock()
		n := min(len(d.waiting), departBatch)
		batch := d.waiting[:n:n]
		if d.waiting = d.waiting[n:]; n == 0 {
			d.waiting = nil
			d.workers--
		}
		d.mu.Unlock()
		switch n {
		case 0:
			return
		case 1:
		default:
			batch = q.departTogether(batch)
		}
		for _, e := range batch { // one by one
			go func() {
				defer q.Tasks.Leave()
				q.departAlone(e)
			}()
		}
	}
}

// takeLeave is Discard for who waits for it. If ctx ends before, it goes on without: whoever
// has deleted an entry has the duty for the parent then, and cannot give that up.
func (q *Queue) takeLeave(ctx context.Context, e *Entry) error {
	if !q.Tasks.Enter() {
		return zkconn.ErrClosed
	}
	left := make(chan error, 1)
	go func() {
		defer q.Tasks.Leave()
		left <- q.departAlone(e)
	}()
	select {
	case err := <-left:
		return err
	case <-ctx.Done():
		return zkconn.ContextError(ctx)
	}
}

// departAlone deletes an entry's node. The error, which is logged here, says that it may be
// there still; one that somebody else has removed or written is none of ours.
func (q *Queue) departAlone(e *Entry) error {
	ctx, cancel := context.WithTimeout(context.Background(), q.patience(e.Terms))
	defer cancel()
	err := q.Leave(ctx, e)
	if err == nil {
		return nil
	}
	q.Forget(e)
	if errors.Is(err, lease.ErrRemoved) {
		return nil
	}
	q.Log.Warn().Err(err).Str("lock", e.Lock()).Str("entry", e.Path).
		Msg("an entry that is not wanted any more could not be deleted; it is left to expire")
	if errors.Is(err, lease.ErrTaken) { // it is somebody else's
		return nil
	}
	q.giveUp(err)
	return err
}

// discardIfBroken forgets an entry that somebody else has written. If that one has broken it,
// who waits for it to go, it is deleted first, in the background.
func (q *Queue) discardIfBroken(e *Entry) {
	if !q.Tasks.Enter() {
		q.Forget(e)
		return
	}
	go func() {
		defer q.Tasks.Leave()
		defer q.Forget(e)
		ctx, cancel := context.WithTimeout(context.Background(), q.patience(e.Terms))
		defer cancel()
		err := q.Conn.Retry(ctx, leaveBackoff, func() error {
			n, err := q.Conn.GetSynced(ctx, e.Path)
			if errors.Is(err, zk.ErrNoNode) || err == nil && !errors.Is(e.OverwrittenBy(n.Data), lease.ErrBroken) {
				return nil
			} else if err != nil {
				return err
			}
			_, err = q.Conn.Multi(ctx, nil, &zk.DeleteRequest{Path: e.Path, Version: n.Stat.Version})
			if _, cause := zkconn.RefusedOp(err); errors.Is(cause, zk.ErrNoNode) || errors.Is(cause, zk.ErrBadVersion) {
				return zkconn.ErrAgain
			}
			return err
		})
		if err != nil {
			q.giveUp(err)
			q.Log.Warn().Err(err).Str("lock", e.Lock()).Str("entry", e.Path).
				Msg("an entry that somebody else has written could not be looked at; if it was broken it is left to expire")
		}
	}()
}

// departTogether deletes entries, and their locks' parents where they were alone, in
// one transaction. It returns those that are to go one by one, because it was refused or
// its outcome is not known.
func (q *Queue) departTogether(batch []*Entry) (rest []*Entry) {
	all := make([]*leaving, len(batch))
	for i, e := range batch {
		all[i] = new(leaving)
		all[i].begin(q, e)
		all[i].announce, all[i].linger = false, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.patience(batch[0].Terms))
	defer cancel()
	gone, apart := q.leaveTogether(ctx, all, 0)
	for _, l := range apart {
		q.closeDoor(l.door)
		rest = append(rest, l.e)
	}
	for _, l := range gone {
		if l.alone {
			l.gone(ctx, 0, census{})
			q.closeDoor(l.door)
			q.Tasks.Leave()
			continue
		}
		go func() {
			defer q.Tasks.Leave()
			defer q.closeDoor(l.door)
			ctx, cancel := context.WithTimeout(context.Background(), q.patience(l.e.Terms))
			defer cancel()
			l.gone(ctx, 0, census{})
		}()
	}
	return rest
}

// leaveTogether deletes entries in one transaction, and their locks' parents where they
// were alone. So many times a parent may be refused before all of them are left for later:
// it is probably not the only one. It returns whose entries have gone, who have yet to see
// to the parents; and who are to leave one by one, because theirs was refused, or the
// outcome of all is not known.
func (q *Queue) leaveTogether(ctx context.Context, all []*leaving, parents int) (gone, apart []*leaving) {
	for len(all) > 0 {
		ops, whose := departure(all)
		now := q.Clock.Mono()
		for _, l := range all {
			l.asked = now // nothing was tried before whose outcome is unknown
		}
		_, err := q.Conn.Multi(ctx, nil, ops...)
		if err == nil {
			break
		}
		switch op, _ := zkconn.RefusedOp(err); {
		case op < 0:
			for _, l := range all {
				l.tried = l.tried || zkconn.OutcomeOf(err) == zkconn.Ambiguous
			}
			return nil, append(apart, all...)
		case op > 0 && whose[op-1] == whose[op]:
			all[whose[op]].door.hint(hints.crowded)
			for i, l := range all {
				l.alone = l.alone && parents > 0 && i != whose[op]
			}
			parents--
		default:
			apart = append(apart, all[whose[op]])
			all = slices.Delete(all, whose[op], whose[op]+1)
		}
	}
	return all, apart
}

// departure returns the transaction in which all of them leave, and for each of its
// operations whose it is.
func departure(all []*leaving) (ops []any, whose []int) {
	for i, l := range all {
		ops, whose = append(ops, &zk.DeleteRequest{Path: l.e.Path, Version: l.version}), append(whose, i)
		if l.alone {
			ops, whose = append(ops, &zk.DeleteRequest{Path: l.e.parent(), Version: l.e.parentVersion}), append(whose, i)
		}
	}
	return ops, whose
}
