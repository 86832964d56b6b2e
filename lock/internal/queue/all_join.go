package queue

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// join creates all entries in one transaction. It has the turns of all doors until that
// is done; what is tried again is tried as a whole.
func (a *all) join(ctx context.Context) (es []*Entry, ps []position, err error) {
	for i, c := range a.each {
		if err := c.door.lock(ctx); err != nil {
			a.at = i
			return nil, nil, err
		}
		defer c.door.unlock()
	}
	a.at = -1
	if err := a.LearnTime(ctx); err != nil {
		return nil, nil, err
	}
	js := make([]*joining, len(a.each))
	for i, c := range a.each {
		js[i] = &joining{contender: c}
	}
	err = a.Conn.Retry(ctx, joinBackoff, func() error {
		attempts, err := a.next(ctx, js)
		if err != nil {
			return zkconn.Final(err)
		}
		var refused int
		if es, ps, refused, err = a.create(ctx, attempts); err == nil {
			return nil
		}
		if a.at = -1; refused >= 0 {
			a.at = refused
		}
		refused = max(0, refused)
		return js[refused].handleJoinError(ctx, attempts[refused], err)
	})
	return es, ps, err
}

// next chooses the next attempts. To look at the parent of one takes time, in which what
// is known of the others may become too old to be written on without proof; then their
// entries are created alone, and prove it: of what stays, all that has become half as old as
// it may be.
func (a *all) next(ctx context.Context, js []*joining) ([]attempt, error) {
	attempts, read := make([]attempt, len(js)), false
	for i, j := range js {
		next, err := j.next(ctx)
		if err != nil {
			a.at = i
			return nil, err
		}
		attempts[i], read = next, read || next.read
	}
	for i, j := range js {
		next := &attempts[i]
		old := !j.stays(next.parent) || a.Clock.Mono()-next.chosen > factsLast/2
		if read && next.blind() && old {
			next.claim, next.write = true, false
		}
	}
	return attempts, nil
}

// create makes the attempts in one transaction. If one of its operations was refused it
// tells whose that was, and the error is as if that one had been alone; -1 otherwise.
func (a *all) create(ctx context.Context, attempts []attempt) ([]*Entry, []position, int, error) {
	if !a.Tasks.Enter() {
		return nil, nil, -1, zkconn.NotSent(zkconn.ErrClosed)
	}
	alone := true // who creates the parents of all holds them all
	for i, next := range attempts {
		alone = alone && !next.parent.exists
		if next.blind() {
			if err := a.each[i].inTime(ctx, next); err != nil {
				a.Tasks.Leave()
				return nil, nil, i, err
			}
		}
	}
	created := lease.Created{Sent: a.Clock.Local(), Session: a.Conn.Session()}
	if alone {
		created.Acquired = a.Clock.Millis(created.Sent)
	}
	ds := make([]*draft, len(attempts))
	var ops []any
	for i, next := range attempts {
		ds[i] = a.each[i].draft(next, created.Acquired, created.Sent)
		ops = append(ops, ds[i].ops...)
	}
	replies, err := a.Conn.Multi(ctx, func(replies []zk.MultiResponse, err error) {
		defer a.Tasks.Leave()
		a.cleanUpAbandoned(ds, replies, err)
	}, ops...)
	if zkconn.IsAbandoned(err) {
		return nil, nil, -1, err
	}
	defer a.Tasks.Leave()
	switch zkconn.OutcomeOf(err) {
	case zkconn.Applied:
		return a.applied(ctx, ds, replies, created)
	case zkconn.Ambiguous:
		return a.find(ctx, ds, created)
	}
	i, err := whose(ds, err)
	return nil, nil, i, err
}

// applied takes the replies to the drafts.
func (a *all) applied(ctx context.Context, ds []*draft, replies []zk.MultiResponse, created lease.Created) (_ []*Entry, _ []position, refused int, err error) {
	received := a.Clock.Local()
	es, ps, each := make([]*Entry, len(ds)), make([]position, len(ds)), parts(ds, replies)
	take := func(ctx context.Context, i int) (err error) {
		if es[i], ps[i], err = a.each[i].applied(ctx, ds[i], each[i], created, received); err != nil {
			es[i] = nil // it was taken back
		}
		return err
	}
	if slices.ContainsFunc(ds, func(d *draft) bool { return d.claim }) {
		err = a.together(ctx, take)
	} else {
		for i := range ds {
			_ = take(ctx, i) // only a claim fails
		}
	}
	if err != nil {
		a.takeBack(es)
		return nil, nil, a.at, err
	}
	return es, ps, -1, nil
}

// find looks for the entries of drafts whose replies were lost. They were all created, or
// none; should some be seen and others not, the transaction has come meanwhile, or
// somebody has removed some, and none of them counts.
func (a *all) find(ctx context.Context, ds []*draft, created lease.Created) ([]*Entry, []position, int, error) {
	paths := make([]string, len(ds))
	var err error
	for i, d := range ds {
		if paths[i], _, err = a.each[i].findByID(ctx, d.id); err != nil {
			a.disown(ds, i)
			return nil, nil, -1, err
		}
	}
	es := make([]*Entry, len(ds))
	for i, d := range ds {
		es[i] = a.each[i].found(ctx, d, paths[i], created)
	}
	return es, make([]position, len(ds)), -1, nil
}

// disown has all the drafts' entries deleted, of which the one at that place was not found.
func (a *all) disown(ds []*draft, missing int) {
	for i, d := range ds {
		c := a.each[i]
		if c.quarantine.add(d.id, c.Clock.Mono()); i != missing || missing > 0 {
			c.background(func() { c.deleteByID(d.id) })
		}
	}
}

// cleanUpAbandoned deletes what a transaction has made that nobody waits for any more.
func (a *all) cleanUpAbandoned(ds []*draft, replies []zk.MultiResponse, err error) {
	for i, part := range parts(ds, replies) {
		a.background(func() { a.each[i].cleanUpAbandoned(ds[i], part, err) })
	}
}

// parts are the replies to each of the drafts, nil if there are none.
func parts(ds []*draft, replies []zk.MultiResponse) [][]zk.MultiResponse {
	all := make([][]zk.MultiResponse, len(ds))
	for i, d := range ds {
		if replies != nil {
			all[i], replies = replies[:len(d.ops)], replies[len(d.ops):]
		}
	}
	return all
}

// whose says which draft's operation the server refused, -1 if that is not what happened,
// and the error as it would be if that draft had been sent alone.
func whose(ds []*draft, err error) (int, error) {
	op, cause := zkconn.RefusedOp(err)
	for i, d := range ds {
		switch {
		case op < 0:
			return -1, err
		case op < len(d.ops):
			return i, zkconn.RefusedAt(op, cause)
		}
		op -= len(d.ops)
	}
	return -1, err
}
