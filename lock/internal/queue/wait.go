package queue

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// waiter is a contender with an entry in the queue.
type waiter struct {
	*contender
	e *Entry
	p position

	// Only for a semaphore:
	holders            *holders // nil: it is not the first waiter, or does not know that
	grantedPredecessor string   // a predecessor whose record shows the grant, or that is not Leased
}

// wait waits until the entry's turn has come. It fails when ctx ends, and with lease.ErrGone if the
// entry was lost. A try does not wait: it fails with a Blocked.
func (c *contender) wait(ctx context.Context, e *Entry, p position) error {
	if !p.admitted {
		e.Begin(c.Values)
	}
	var w *waiter
	for {
		next, why := admit(p, e.Fresh(c.Conn.Session()))
		if next == enter {
			c.Log.Debug().Str("lock", c.Lock).Str("entry", e.Path).Str("why", why).Msg("its turn has come")
			return zkconn.ContextError(ctx)
		}
		if w == nil {
			w = &waiter{contender: c, e: e, p: p}
		}
		var err error
		switch next {
		case renew:
			if err = e.Refresh(ctx); err == nil {
				err = w.listPosition(ctx)
			}
		case list:
			err = w.listPosition(ctx)
		case follow:
			if !c.trying {
				c.waiting(e.Path, c.entriesAhead)
			}
			err = kindOf(c.Kind).follow(ctx, w)
		}
		if err != nil {
			return err
		}
		p = w.p
	}
}

// listPosition finds the entry's position by a list. The list may be stale. But a list that
// contains the waiter's own entry contains every earlier entry that still exists.
func (w *waiter) listPosition(ctx context.Context) error {
	settled := w.settled()
	names, self, err := w.listOwn(ctx)
	if err != nil {
		return err
	}
	return kindOf(w.Kind).inList(ctx, w, names, self, settled)
}

// listOwn returns the contenders, and the index of the waiter's own entry among them. If the entry
// is missing also after a Sync, it ends the entry and fails with lease.ErrGone.
func (w *waiter) listOwn(ctx context.Context) ([]znode.Name, int, error) {
	for _, caughtUp := range []bool{false, true} {
		names, err := w.list(ctx, caughtUp)
		if err != nil {
			return nil, 0, err
		}
		self := znode.Find(names, w.e.Name().Node)
		if self < 0 {
			continue
		}
		w.entriesAhead = self
		return names, self, nil
	}
	w.e.Vanished()
	return nil, 0, lease.ErrGone
}

// settled is called before a read. The function that it returns is called after the read, and
// reports whether the read is settled: the waiter's own entry had been written in the read's
// session. The server of another session may lag behind even the create of an entry that exists.
func (w *waiter) settled() func() bool {
	session := w.Conn.Session()
	written := w.e.WrittenIn(session)
	return func() bool { return written && w.Conn.Session() == session }
}

// settle handles a read that proves nothing: it writes the waiter's own entry in this session. A
// list then finds the waiter's position.
func (w *waiter) settle(ctx context.Context) error {
	w.p, w.holders = position{}, nil
	return w.e.Refresh(ctx)
}

// prove is a proof for a waiter: it gets the epoch's mark if the mark decides, and otherwise renews
// the waiter's own entry, which is also a sample of the leader's clock.
func (w *waiter) prove(ctx context.Context, knew znode.Now, mzxid int64) error {
	if knew.Zxid != 0 && mzxid < knew.Term && !knew.Marked {
		if err := w.Clock.Prove(ctx, knew, mzxid); !errors.Is(err, zkconn.ErrDenied) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return w.e.Refresh(ctx)
}

// unread handles the error of a read of the predecessor, or of the target. If that has gone, it changes
// the position. If an ACL hides the predecessor, a try gets a Blocked, and a waiter pauses for
// pollEvery. It returns any other error.
func (w *waiter) unread(ctx context.Context, name znode.Name, settled bool, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode) && settled:
		w.p.predecessorGone = true
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return w.settle(ctx)
	case errors.Is(err, zk.ErrNoAuth):
		w.warn(w.path(name), &sighting{entry: znode.Entry{Name: name}}, err, "the entry ahead cannot be read, its ACL does not let us; retrying until it has gone")
		if w.trying {
			return &Blocked{Path: w.path(name)}
		}
		w.p = position{}
		_, err = w.awaitChange(ctx, pollEvery, nil, nil)
	}
	return err
}

// awaitChange waits for a change of the predecessor, or of another entry; for at most the time most
// if that is not negative, and at most for readAgainAfter. again: the watch on the predecessor has
// not fired. A deletion event proves that the predecessor has gone: the server sends it only if it
// had shown the predecessor before.
func (w *waiter) awaitChange(ctx context.Context, most time.Duration, changed, other <-chan zk.Event) (again bool, err error) {
	if most < 0 || most > readAgainAfter {
		most = readAgainAfter
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		own, err := w.e.Watch()
		if err != nil {
			return false, err
		}
		select {
		case event, open := <-changed:
			if open {
				<-changed // is closed next; until then, another read would get this same watch
			}
			w.p.predecessorGone = event.Type == zk.EventNodeDeleted
			return false, nil
		case event, open := <-other:
			if open {
				<-other
			}
			// Only a semaphore's waiter uses this.
			w.p.targetGone = event.Type == zk.EventNodeDeleted
			return true, nil
		case <-timer.C:
			return true, nil
		case <-own: // the waiter's own entry was renewed, or has gone
		case <-ctx.Done():
			return false, zkconn.ContextError(ctx)
		}
	}
}

// followForeign waits for the entry of another library. Its client never purges entries. So this
// waiter also judges the nearest Holdfast entry ahead of the foreign one, and purges that entry if
// it has expired.
func (w *waiter) followForeign(ctx context.Context, foreign *sighting) error {
	names, self, err := w.listOwn(ctx)
	if err != nil {
		return err
	}
	i := self - 1
	for i >= 0 && !names[i].Ours() {
		i--
	}
	wait, left := time.Duration(-1), (<-chan zk.Event)(nil)
	if i >= 0 {
		ours, err := w.assess(ctx, names[i], true, w.prove)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			w.p = position{}
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			wait = pollEvery
		case err != nil:
			return err
		case ours.expired:
			return w.purge(ctx, ours)
		default:
			wait, left = ours.wait, ours.changed
		}
	}
	if late := w.warnOfForeign(foreign); late > 0 && (wait < 0 || late < wait) {
		wait = late
	}
	_, err = w.awaitChange(ctx, wait, foreign.changed, left)
	return err
}
