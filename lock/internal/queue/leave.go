package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// leaveBackoff is between tries to delete an entry.
var leaveBackoff = zkconn.Backoff{First: 20 * time.Millisecond, Most: time.Second}

// leaving is the way of an entry out of the queue.
type leaving struct {
	*Queue
	e    *Entry
	name znode.Name
	door *door

	version, acknowledged int32         // of the node's data: probably, and at least
	pending               []byte        // of a write of unknown outcome
	parent                facts         // for a release that is told
	keep                  bool          // the parent stays
	tried                 bool          // an attempt may have been applied
	missing               bool          // the entry was not there: it went nobody knows when
	asked                 time.Duration // monotonic time before the first attempt that may have been applied: it was there then

	// What is tried first: to delete the parent too, to tell the release in it, or to
	// leave it for a moment.
	alone, announce, linger bool
	busy                    bool // others are at the lock too, so that the parent will not stay as it is
}

// Leave deletes the entry's node, and the lock's parent with it if nobody else is
// there. It goes on over reconnects until ctx ends. It fails with ErrRemoved if the
// node was gone already, and ErrTaken if somebody else wrote it; then it touches
// nothing. A node that is gone is what was asked for if a lost reply may have told so,
// or if its lease has ended since; but not if the lease may have ended before.
func (q *Queue) Leave(ctx context.Context, e *Entry) error {
	var l leaving
	l.begin(q, e)
	return q.leave(ctx, &l)
}

// leave does it, and closes the door.
func (q *Queue) leave(ctx context.Context, l *leaving) error {
	defer q.closeDoor(l.door)
	err := q.Conn.Retry(ctx, leaveBackoff, func() error { return l.attempt(ctx) })
	if err == nil || errors.Is(err, lease.ErrRemoved) || errors.Is(err, lease.ErrTaken) {
		return err
	}
	return fmt.Errorf("delete %s: %w", l.e.Path, err)
}

// begin opens the entry's door, and chooses what is tried first.
func (l *leaving) begin(q *Queue, e *Entry) {
	*l = leaving{Queue: q, e: e, name: e.Name(), door: q.openDoor(e.Lock())}
	l.version, l.acknowledged, l.pending = e.LastWrite()
	spent := l.name.Draining()
	l.keep = (e.keepParent || e.adopted) && !spent
	now := q.Clock.Mono()
	others := l.door.others(e)
	f, _ := l.door.look()
	l.parent = f
	l.door.hint(func(h hints) {
		if since := e.HeldSince(); since != 0 {
			h.held(now - since)
		}
		l.linger, l.busy = h.likelyToReturn(now, e.joinedAlone && !e.Fixed)
		l.linger = l.linger && !others && !spent && e.Kind != znode.Semaphore // whose facts prove nothing without a witness
		l.alone = !others && !l.linger && !l.keep && e.joinedAlone && h.stillAlone(f, e.parentVersion)
		// The facts are about the parent that the entry stands below, and who deletes
		// the entry in the same transaction proves that it is that one still.
		same := e.incarnation != 0 && f.exists && !f.stale && f.czxid == e.incarnation
		l.announce = !l.alone && same && !spent && !l.door.readOnly &&
			e.Kind.Alone(l.name) && e.othersAtGrant && e.GrantUnrecorded() && h.announceRelease(now)
	})
}

// attempt makes one transaction. What it returns is for Retry.
func (l *leaving) attempt(ctx context.Context) error {
	ops := append(make([]any, 0, 2), &zk.DeleteRequest{Path: l.e.Path, Version: l.version})
	told := l.parent.data
	switch {
	case l.alone:
		ops = append(ops, &zk.DeleteRequest{Path: l.e.parent(), Version: l.e.parentVersion})
	case l.announce:
		releaseBy(l.e, l.name).tell(&told)
		ops = append(ops, &zk.SetDataRequest{Path: l.e.parent(), Data: told.Encode(), Version: l.parent.version})
	}
	if !l.tried {
		l.asked = l.Clock.Mono()
	}
	asked := l.door.count()
	replies, err := l.Conn.Multi(ctx, nil, ops...)
	if err == nil {
		if l.announce {
			now := l.Clock.Mono()
			l.door.hint(func(h hints) { h.announced(true, now) })
			l.door.see(factsOf(told, replies[1].Stat, l.Clock.Mono()))
			l.gone(ctx, replies[1].Stat.NumChildren, asked)
		} else {
			l.gone(ctx, 0, census{})
		}
		return nil
	}
	op, cause := zkconn.RefusedOp(err)
	switch {
	case zkconn.OutcomeOf(err) == zkconn.Ambiguous:
		l.tried = true
	case op == 1 && l.alone: // somebody came, or the parent is not ours to delete
		l.door.hint(hints.crowded)
		l.alone = false
		return zkconn.ErrAgain
	case op == 1: // somebody has written the parent since we looked
		now := l.Clock.Mono()
		l.door.doubt()
		l.door.hint(func(h hints) { h.announced(false, now) })
		l.announce = false
		return zkconn.ErrAgain
	case op == 0:
		return l.refused(ctx, cause)
	}
	return err
}

// refused takes the server's refusal to delete the entry.
func (l *leaving) refused(ctx context.Context, cause error) error {
	switch {
	case errors.Is(cause, zk.ErrNoNode) && !l.e.Lapsed() && (l.tried || l.e.IsOver()):
		l.missing, l.alone, l.announce, l.linger = true, false, false, false
		l.gone(ctx, 0, census{})
		return nil
	case errors.Is(cause, zk.ErrNoNode):
		return zkconn.Final(lease.ErrRemoved)
	case errors.Is(cause, zk.ErrNoAuth):
		return zkconn.Final(fmt.Errorf("%w: the lock's ACL does not let us", zkconn.ErrDenied))
	case !errors.Is(cause, zk.ErrBadVersion):
		return zkconn.Final(cause)
	}
	switch n, err := l.Conn.GetSynced(ctx, l.e.Path); { // in a new session the server may lag behind our own write
	case errors.Is(err, zk.ErrNoNode):
		l.tried = true
	case err != nil:
		return zkconn.Final(err)
	case n.Stat.Version == l.acknowledged || l.pending != nil && bytes.Equal(n.Data, l.pending):
		l.version = n.Stat.Version
	default:
		if why := l.e.OverwrittenBy(n.Data); !errors.Is(why, lease.ErrBroken) {
			return zkconn.Final(why)
		}
		l.version = n.Stat.Version // whoever has broken it waits until it has gone
	}
	return zkconn.ErrAgain
}

// gone tidies up the parent when the entry has gone. Children is how many others were there
// then, as far as the reply tells, and asked the account of ours before it was asked: if one
// of them is somebody else's the parent is their duty.
func (l *leaving) gone(ctx context.Context, children int32, asked census) {
	now, until := l.Clock.Mono(), time.Duration(0)
	if !l.missing {
		until = l.asked // the reply may be late
	}
	l.door.released(releaseBy(l.e, l.name))
	last := l.door.exit(l.e, until, l.linger || l.keep)
	others := l.door.strangersAmong(children, asked)
	left := func(others bool) { l.door.hint(func(h hints) { h.left(now, others) }) }
	switch {
	case l.alone && !l.tried:
		l.door.deleted(l.e.incarnation)
		left(false)
	case others:
		left(true)
	case l.keep, !last:
	case l.linger:
		if l.busy {
			l.door.doubt()
		}
		l.door.hint(func(h hints) { h.lingered(now) })
		l.lingerOn(l.e, l.door, now)
	default:
		left(l.tidyUp(ctx, l.door, l.e))
	}
}

// Forget accounts for an entry that somebody else has removed or written, and tidies
// up the parent if that was the last one of ours there.
func (q *Queue) Forget(e *Entry) {
	d := q.openDoor(e.Lock())
	defer q.closeDoor(d)
	if last := d.exit(e, 0, false); !last || e.keepParent { // it went nobody knows when
		return
	}
	q.tidyLater(e, e.Name().Draining())
}

// tidyUp tidies up the parent of an entry that has gone, and reports whether somebody is
// there. The duty cannot be given up with the caller's time, nor for a request that was lost:
// what is left of it is done in the background.
func (q *Queue) tidyUp(ctx context.Context, d *door, e *Entry) (others bool) {
	others, err := q.tidyParent(ctx, d, e.parent(), e.keepParent, e.Name().Draining())
	if err != nil && zkconn.OutcomeOf(err) != zkconn.Refused {
		q.tidyLater(e, false)
	}
	return others
}

// lastMoments are what a duty that goes on in the background has when the client closes.
const lastMoments = time.Second

// tidyLater does it in the background, and goes on over reconnects. That the counter is at its
// end, which has even a parent go that is to stay, counts for the first try only: later another
// one may stand there.
func (q *Queue) tidyLater(e *Entry, spent bool) {
	q.background(func() {
		d := q.openDoor(e.Lock())
		defer q.closeDoor(d)
		ctx, cancel := context.WithTimeout(context.Background(), q.patience(e.Terms))
		defer cancel()
		defer context.AfterFunc(q.Closing, func() { time.AfterFunc(lastMoments, cancel) })()
		err := q.Conn.Retry(ctx, leaveBackoff, func() error {
			_, err := q.tidyParent(ctx, d, e.parent(), e.keepParent, spent)
			spent = false
			return err
		})
		if err != nil {
			q.Log.Debug().Err(err).Str("parent", e.parent()).Msg("the lock's parent may be empty, and is left to the reaper")
		}
	})
}

// parentCleanup is the duty to look after a parent that was left because this process
// will probably be back: once, when nobody of us has been there for a while. It is
// guarded by its door.
type parentCleanup struct {
	running bool
	since   time.Duration // monotonic time at which one of ours left last
}

// start begins the time anew, and reports whether the caller is to tidy up when it is
// over: nobody else is about to.
func (p *parentCleanup) start(now time.Duration) bool {
	first := !p.running
	p.running, p.since = true, now
	return first
}

// remaining is how much of the time is missing.
func (p *parentCleanup) remaining(now time.Duration) time.Duration { return p.since + lingerTime - now }

// stop ends it: who leaves from now on has the duty again.
func (p *parentCleanup) stop() { p.running = false }

// lingerOn tidies up the parent a while after the entry has left it; at once when the
// client closes.
func (q *Queue) lingerOn(e *Entry, d *door, now time.Duration) {
	d.mu.Lock()
	first := d.cleanup.start(now)
	d.mu.Unlock()
	if !first {
		return
	}
	if !q.Tasks.Enter() {
		d.mu.Lock()
		d.cleanup.stop()
		d.mu.Unlock()
		return
	}
	go func() {
		defer q.Tasks.Leave()
		q.awaitLeisure(d)
		ctx, cancel := context.WithTimeout(context.Background(), q.patience(e.Terms))
		defer cancel()
		d := q.openDoor(d.name)
		defer q.closeDoor(d)
		if d.lock(ctx) == nil { // who comes back now waits until it is known whether the parent has gone
			defer d.unlock()
		}
		d.mu.Lock()
		d.cleanup.stop()
		there := d.below > 0
		d.mu.Unlock()
		if there {
			return // the one of ours that leaves last tidies up
		}
		q.tidyUp(ctx, d, e)
	}()
}

// awaitLeisure waits until none of ours has been at the lock for a while, or the client
// closes.
func (q *Queue) awaitLeisure(d *door) {
	for wait := lingerTime; wait > 0; {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			now := q.Clock.Mono()
			d.mu.Lock()
			wait = d.cleanup.remaining(now)
			d.mu.Unlock()
		case <-q.Closing.Done():
			wait = 0
		}
		timer.Stop()
	}
}
