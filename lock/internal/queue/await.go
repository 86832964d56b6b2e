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

// pollEvery is how often is looked where no watch can be had.
const pollEvery = time.Second

// waiter is a contender with an entry in the queue.
type waiter struct {
	*contender
	e *Entry
	p position

	looked bool // it has listed

	seen *observation // the predecessor as it was read last; nil: it was not

	// Of a semaphore: those ahead, if this is the first one who waits; what was known of
	// them when it last was; and a predecessor that tells its grant.
	ahead, before *crowd
	granted       string
}

// await waits until it is the entry's turn.
func (c *contender) await(ctx context.Context, e *Entry, p position) error {
	if !p.admitted {
		e.Begin(c.Values)
	}
	var w *waiter
	for {
		next, why := decide(p, e.Fresh(c.Conn.Session()))
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
				err = w.look(ctx)
			}
		case list:
			err = w.look(ctx)
		case follow:
			if w.ahead != nil {
				err = w.followCrowd(ctx)
			} else {
				err = w.follow(ctx)
			}
		case sift:
			err = w.sift(ctx)
		}
		if err != nil {
			return err
		}
		p = w.p
	}
}

// look finds the entry's place by listing. The list may be stale, but one that
// has our entry in it has every earlier one that still is.
func (w *waiter) look(ctx context.Context) error {
	names, self, err := w.survey(ctx)
	if err == nil {
		w.p = pastReaders(w.place(names, self), names, self, w.rules())
	}
	return err
}

// survey is list, and of a semaphore how many permits there were at that time or later.
func (w *waiter) survey(ctx context.Context) (names []znode.Name, self int, err error) {
	for {
		settled := w.sameSessionSince()
		names, self, err = w.list(ctx)
		if err != nil || w.Kind != znode.Semaphore {
			return names, self, err
		}
		if err = w.learnCapacity(ctx); err == nil && w.overtaken() {
			err = errAged
		}
		if err != nil || settled() {
			return names, self, err
		}
		if err = w.e.Refresh(ctx); err != nil {
			return names, self, err
		}
	}
}

// list returns the contenders, and where the entry stands among them.
func (w *waiter) list(ctx context.Context) ([]znode.Name, int, error) {
	for _, caughtUp := range []bool{false, true} {
		token := w.peekToken(ctx)
		look := func() ([]znode.Name, *zk.Stat, error) { return w.contenders(ctx, caughtUp) }
		if !caughtUp {
			// Whoever has waited for somebody may be next.
			look = func() ([]znode.Name, *zk.Stat, error) { return w.lookTogether(ctx, !w.looked && !w.p.seen) }
		}
		names, parent, err := look()
		w.looked = true
		if w.e.czxid == 0 {
			w.e.czxid = <-token
		}
		if err != nil {
			return nil, 0, err
		}
		w.listed = parent
		if self := znode.Find(names, w.e.Name().ID); self >= 0 {
			if err := w.checkParent(ctx, parent.Czxid); err != nil {
				return nil, 0, err
			}
			w.door.place(w.e, parent.Czxid)
			w.door.listed(parent.Czxid, names)
			return names, self, w.fetchToken(ctx)
		}
	}
	w.e.Vanished()
	return nil, 0, lease.ErrGone
}

// checkParent refuses a parent that is not ours to use and that the entry was created in
// unseen: by facts of another one, which was there before.
func (w *waiter) checkParent(ctx context.Context, czxid int64) error {
	if f, _ := w.door.look(); w.e.incarnation != 0 || f.exists && f.czxid == czxid {
		return nil
	}
	return w.readParent(ctx)
}

// peekToken looks for the fencing token of an entry that joined without the parent, while
// other things are done; 0: it was not seen.
func (w *waiter) peekToken(ctx context.Context) <-chan int64 {
	if w.e.czxid != 0 {
		return nil
	}
	token := make(chan int64, 1)
	go func() {
		n, err := w.Conn.Get(ctx, w.e.Path)
		if err != nil {
			token <- 0
			return
		}
		token <- n.Stat.Czxid
	}()
	return token
}

// fetchToken learns it for certain.
func (w *waiter) fetchToken(ctx context.Context) error {
	if w.e.czxid != 0 {
		return nil
	}
	n, err := w.Conn.Get(ctx, w.e.Path)
	if errors.Is(err, zk.ErrNoNode) {
		w.e.Vanished()
		return lease.ErrGone
	}
	if err == nil {
		w.e.czxid = n.Stat.Czxid
	}
	return err
}

// follow waits for the predecessor: until it has changed or gone, or has expired
// and was purged. What it learns stands in the position.
func (w *waiter) follow(ctx context.Context) error {
	path := w.parent + "/" + w.p.predecessor
	if ahead, ok := znode.Parse(w.p.predecessor); ok {
		w.discardStrays(ahead) // who joined right behind it has not listed
	}
	settled := w.sameSessionSince()
	n, changed, err := w.Conn.Watch(ctx, path)
	if err != nil {
		return w.predecessorUnread(ctx, settled(), err)
	}
	w.observe(n, settled())
	if ahead := &w.seen.entry; !ahead.Leased() && ahead.Ours() {
		w.Log.Warn().Str("lock", w.Lock).Str("ahead", path).
			Msg("the entry ahead is damaged or of a newer version: it is waited for and never purged; delete it by hand if nobody owns it")
	}
	for confirmed := false; !w.p.shares && w.ahead == nil && w.p.predecessor != ""; confirmed = true {
		knew := w.Clock.Now()
		ahead := &w.seen.entry
		verdict, wait := w.judge(w.seen, knew)
		switch {
		case !ahead.Ours():
			return w.followStranger(ctx, changed)
		case verdict == znode.Live:
			event, err := w.awaitChange(ctx, changed, nil, wait)
			if event == zk.EventNodeDeleted { // the server tells so, to whom it had shown it before
				return w.gone(ctx)
			}
			if event != 0 || err != nil {
				return err
			}
		case verdict == znode.Unproven:
			if err := w.prove(ctx, knew, ahead.Stat.Mzxid); err != nil {
				return err
			}
		case !w.e.WroteSince(w.Conn.LastOutage()):
			// After an outage of ours everybody looks dead: first of all we are to be
			// seen alive ourselves.
			if err := w.e.Refresh(ctx); err != nil {
				return err
			}
		case confirmed && len(w.p.between) > 0 && w.Kind.Alone(ahead.Name): // the readers purge it
			w.p = position{predecessor: w.p.between[len(w.p.between)-1], seen: true}
			return nil
		case confirmed:
			w.p, err = w.purge(ctx)
			return err
		}
		// A change can be lost over a reconnect: read before judging.
		settled = w.sameSessionSince()
		if n, err = w.Conn.Get(ctx, path); err != nil {
			return w.predecessorUnread(ctx, settled(), err)
		}
		w.observe(n, settled())
	}
	return nil
}

// observe takes what a read of the predecessor returned. It counts as proof that the
// predecessor was there together with our own entry only if it is settled; else it
// shows what was, and who is in the way.
func (w *waiter) observe(n zkconn.Node, settled bool) {
	name, _ := znode.Parse(w.p.predecessor)
	seen := znode.ReadEntry(name, n.Data, znode.Stat(*n.Stat))
	w.seen = w.observed(w.seen, seen)
	w.lastBlocker = &Blocked{Path: w.parent + "/" + name.Node, Entry: &seen}
	if settled {
		w.p.seen = true
		w.p.predecessorHolds = w.p.predecessorHolds || seen.Granted() && w.Kind.Alone(name)
		w.p.shares = w.Role == znode.Shared && seen.Shares()
		w.learnCrowd()
	}
}

// sameSessionSince is asked before a read, and what it returns after it: whether all
// of the read was done in a session in which our own entry had been written. The server
// of another session may lag behind even the creation of what is there.
func (w *waiter) sameSessionSince() func() bool {
	session := w.Conn.Session()
	written := w.e.WrittenIn(session)
	return func() bool { return written && w.Conn.Session() == session }
}

// prove gets what was missing for a verdict on what was written in that transaction. Our
// own renewal is a sample of the leader's clock too, and no worse.
func (w *waiter) prove(ctx context.Context, knew znode.Now, mzxid int64) error {
	if knew.Zxid != 0 && mzxid < knew.Term && !knew.Marked {
		if err := w.Clock.Prove(ctx, knew, mzxid); !errors.Is(err, zkconn.ErrDenied) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return w.e.Refresh(ctx)
}

// predecessorUnread takes the error of a read of the predecessor.
func (w *waiter) predecessorUnread(ctx context.Context, settled bool, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode) && settled:
		return w.gone(ctx)
	case errors.Is(err, zk.ErrNoNode):
		w.p = position{}
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		path := w.parent + "/" + w.p.predecessor
		w.lastBlocker = &Blocked{Path: path}
		w.Log.Warn().Str("lock", w.Lock).Str("ahead", path).
			Msg("the entry ahead cannot be read, its ACL does not let us; looking again until it has gone")
		w.p = position{}
		return w.e.Pause(ctx, pollEvery)
	}
	return err
}

// gone takes the news that the predecessor has gone. Where it is not known to have
// held the lock, the parent may tell, which is read unless the queue is joined all the
// time.
func (w *waiter) gone(ctx context.Context) error {
	w.p.predecessorGone = true
	predecessor, _ := znode.Parse(w.p.predecessor)
	if w.p.predecessorHolds || !w.Kind.Alone(predecessor) {
		return nil
	}
	w.learnRelease(predecessor)
	known, now := w.p.admitted || w.p.released, w.Clock.Mono()
	var look bool
	w.door.hint(func(h hints) {
		if look = h.checkRelease(now); known { // only for who is behind, who may be told of our release
			look = !w.followed && h.announceRelease(now)
		}
	})
	if !look {
		return nil
	}
	n, err := w.Conn.Get(ctx, w.parent)
	if err != nil {
		return nil // the listing will tell
	}
	data, err := znode.DecodeParent(n.Data)
	if err != nil || data.Kind != w.Kind {
		return nil
	}
	w.door.see(factsOf(data, n.Stat, now))
	w.e.othersAtGrant = n.Stat.NumChildren > 1
	if w.learnRelease(predecessor); !known {
		w.door.hint(func(h hints) { h.checked(w.p.admitted || w.p.released, now) })
	}
	return nil
}

// learnRelease takes what is known of releases: nobody is ahead after that of who was right
// ahead of us; and nobody was ahead of the predecessor after that of who was right ahead of
// that one. Of who came later it says that our own entry has gone: a list tells.
func (w *waiter) learnRelease(predecessor znode.Name) {
	upTo, own := w.door.goneUpTo(w.e), w.e.Name().Seq
	w.p.admitted = upTo == own-1
	w.p.released = upTo >= predecessor.Seq-1 && upTo < own
}

// awaitChange waits for a change of the predecessor, or of somebody before, for at most the
// given time if that is not negative. It returns what happened to the predecessor, 0 if
// nothing has.
func (w *waiter) awaitChange(ctx context.Context, changed, before <-chan zk.Event, wait time.Duration) (zk.EventType, error) {
	timeout, stop := alarm(wait)
	defer stop()
	for {
		own, err := w.e.Watch()
		if err != nil {
			return 0, err
		}
		select {
		case event := <-changed:
			if event.Type == 0 { // the watch is shared, and somebody has taken the event
				return zk.EventNodeDataChanged, nil
			}
			return event.Type, nil
		case <-before:
			return 0, nil
		case <-timeout:
			return 0, nil
		case <-own: // renewed, or gone
		case <-ctx.Done():
			return 0, zkconn.ContextError(ctx)
		}
	}
}

// await waits for a change, for at most the given time if that is not negative.
func await(ctx context.Context, changed <-chan zk.Event, most time.Duration) error {
	timeout, stop := alarm(most)
	defer stop()
	select {
	case <-changed:
		return nil
	case <-timeout:
		return nil
	case <-ctx.Done():
		return zkconn.ContextError(ctx)
	}
}

// pause waits for a while.
func pause(ctx context.Context, d time.Duration) error { return await(ctx, nil, d) }

// alarm rings once the given time has passed, and never if that is negative.
func alarm(wait time.Duration) (rings <-chan time.Time, stop func()) {
	if wait >= 0 {
		timer := time.NewTimer(wait)
		return timer.C, func() { timer.Stop() }
	}
	return nil, func() {}
}
