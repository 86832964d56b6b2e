package queue

import (
	"context"
	"errors"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// all has the contenders for several locks that are taken together.
//
// One transaction creates all their entries. So two clients that want several locks are in the
// same order in each queue that they share. A waiter waits only for entries older than its own,
// so no deadlock is possible, in whatever order the caller names the locks. If one entry has gone,
// all are withdrawn: a new entry for one lock would be in a different order.
type all struct {
	*Queue
	each   []*contender // sorted by the names of the locks
	trying bool
	at     int // index of the failed request; -1: none in particular
}

// holds has the entries of several locks, sorted by the names of the locks.
type holds struct {
	es []*Entry
	at int // index of the request with the error; -1: none in particular
}

// AcquireAll queues up for several locks and waits until it holds all of them, or ctx ends. The
// requests must be for different locks, sorted by name. The entries are in the same order. If
// AcquireAll fails, it holds no lock. It fails as Acquire does, and returns the index of the failed
// request; -1 if the error is not about one request.
func (q *Queue) AcquireAll(ctx context.Context, rs []Request) ([]*Entry, int, error) {
	return q.takeAll(ctx, rs, false)
}

// TryAll takes several locks if no contender is in the way at any of them. It fails as Try and
// AcquireAll do.
func (q *Queue) TryAll(ctx context.Context, rs []Request) ([]*Entry, int, error) {
	return q.takeAll(ctx, rs, true)
}

func (q *Queue) takeAll(ctx context.Context, rs []Request, trying bool) ([]*Entry, int, error) {
	a := &all{Queue: q, each: make([]*contender, len(rs)), trying: trying, at: -1}
	for i, r := range rs {
		a.each[i] = newContender(q, r)
	}
	h, err := abandonable(ctx, q, a.each, func(ctx context.Context) (holds, error) {
		es, err := a.acquire(ctx)
		return holds{es, a.at}, err
	}, func(h holds) { withdrawAll(h.es) })
	if err != nil && ctx.Err() != nil {
		h.at = a.waitsAt(err)
	}
	return h.es, h.at, err
}

// waitsAt returns the index of the lock at which the error's Blocked was in the way; -1 if the error
// has none.
func (a *all) waitsAt(err error) int {
	var b *Blocked
	if !errors.As(err, &b) {
		return -1
	}
	return slices.IndexFunc(a.each, func(c *contender) bool { return b.Path == c.parent || path.Dir(b.Path) == c.parent })
}

// acquire joins all queues until it holds all locks. A try first checks that all locks look free.
func (a *all) acquire(ctx context.Context) ([]*Entry, error) {
	if a.trying {
		for _, c := range a.each {
			c.lock.dropCached()
		}
		if err := a.together(ctx, func(ctx context.Context, i int) error { return a.each[i].looksFree(ctx) }); err != nil {
			return nil, err
		}
	}
	for {
		es, ps, err := a.join(ctx)
		if err != nil {
			return nil, err
		}
		if err = a.enter(ctx, es, ps); err == nil {
			return es, nil
		}
		if withdrawAll(es); !errors.Is(err, lease.ErrGone) {
			return nil, err
		}
		a.requeued.Add(1)
		a.Log.Warn().Str("lock", a.each[max(0, a.at)].Lock).AnErr("why", err).
			Msg("lost the place in one of several queues; queueing again at the end of all of them")
	}
}

// join creates all entries in one transaction. If the server refuses the transaction, join reads
// all parents again, and sends the transaction again. Correcting one belief at a time might never
// end while other clients change the parents.
func (a *all) join(ctx context.Context) (es []*Entry, ps []position, err error) {
	js := make([]*joiner, len(a.each))
	for i, c := range a.each {
		js[i] = &joiner{contender: c}
	}
	first := true
	err = a.Conn.Retry(ctx, joinBackoff, func() error {
		a.at = -1
		if err := a.LearnTime(ctx); err != nil {
			return zkconn.Final(err)
		}
		known := make([]parent, len(js))
		if err := a.together(ctx, func(ctx context.Context, i int) (err error) {
			if !first && js[i].lock.believed().state != unwritable {
				js[i].lock.believe(parent{state: unknown})
			}
			known[i], err = js[i].know(ctx)
			return err
		}); err != nil {
			return zkconn.Final(err)
		}
		first, a.at = false, -1
		es, ps, err = a.attempt(ctx, js, known)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for i, e := range es {
		if e.Name().Overflowed() { // withdraw from the other locks, and wait for the rollover of this one
			a.at, es[i] = i, nil
			withdrawAll(es)
			e.Withdraw()
			if err := a.each[i].rollover(ctx, e); err != nil {
				return nil, nil, err
			}
			return a.join(ctx)
		}
	}
	return es, ps, nil
}

// attempt sends one transaction that creates all entries. Its error is for Retry.
func (a *all) attempt(ctx context.Context, js []*joiner, known []parent) ([]*Entry, []position, error) {
	if err := a.Conn.Ready(ctx); err != nil {
		return nil, nil, err
	}
	created := lease.Created{Sent: a.Clock.Local(), Session: a.Conn.Session()}
	ds := make([]*draft, len(js))
	var ops []any
	alone := true
	for i, j := range js {
		ds[i] = j.draft(known[i], created.Sent)
		alone = alone && known[i].state == absent
	}
	for _, d := range ds {
		if !alone && d.acquired != 0 { // an entry must wait if another lock has a contender
			d.acquired = 0
			d.ops[d.at] = d.entry(created.Sent)
		}
		ops = append(ops, d.ops...)
	}
	replies, err := a.send(ctx, ops...)
	switch zkconn.OutcomeOf(err) {
	case zkconn.Applied:
		received := a.Clock.Local()
		es, ps := make([]*Entry, len(ds)), make([]position, len(ds))
		for i, d := range ds {
			es[i], ps[i] = d.joined(replies[:len(d.ops)], created, received)
			replies = replies[len(d.ops):]
		}
		return es, ps, a.adoptAll(ctx, es, known)
	case zkconn.Ambiguous:
		es, err := a.resolveCreates(ctx, created, ds)
		if err == nil {
			err = a.adoptAll(ctx, es, known)
		}
		return es, make([]position, len(ds)), err
	}
	op, cause := zkconn.RefusedOp(err)
	if op < 0 {
		return nil, nil, err
	}
	for i, d := range ds {
		if op < len(d.ops) {
			a.at = i
			err = js[i].refused(ctx, d, zkconn.RefusedAt(op, cause))
			break
		}
		op -= len(d.ops)
	}
	if errors.Is(err, zkconn.ErrAgain) {
		err = zkconn.Later(cause) // with a random pause, because other clients change the parents, too
	}
	return nil, nil, err
}

// adoptAll adopts the parents whose kind the join has not proved. If one adoption fails, it withdraws all
// entries.
func (a *all) adoptAll(ctx context.Context, es []*Entry, known []parent) error {
	err := a.together(ctx, func(ctx context.Context, i int) error {
		if known[i].proven() {
			return nil
		}
		return a.each[i].adopt(ctx, es[i])
	})
	if err != nil {
		withdrawAll(es)
		return zkconn.Final(err)
	}
	return nil
}

// resolveCreates looks for the entries of drafts after a lost reply. Either all were created or
// none. If only some are found, the transaction was applied during the search, or another client
// has removed some: then resolveCreates withdraws all and fails.
func (a *all) resolveCreates(ctx context.Context, created lease.Created, ds []*draft) ([]*Entry, error) {
	es := make([]*Entry, len(ds))
	for i, d := range ds {
		e, err := a.each[i].resolveCreate(ctx, created, d)
		if err != nil {
			withdrawAll(es)
			for j, d := range ds {
				c := a.each[j]
				c.orphans.add(znode.FormatID(d.attempt), c.Clock.Mono())
				if es[j] == nil && j != i {
					c.Tasks.Go(drafts{d}.remove)
				}
			}
			return nil, err
		}
		es[i] = e
	}
	return es, nil
}

// enter waits until the turn of all entries has come, and grants them.
func (a *all) enter(ctx context.Context, es []*Entry, ps []position) error {
	if err := a.wait(ctx, es, ps); err != nil {
		return err
	}
	return a.together(ctx, func(ctx context.Context, i int) error { return a.each[i].grant(ctx, es[i]) })
}

// wait waits until all entries can enter at the same moment. While one entry waits for its turn, the
// lease of another may run short. Then wait renews that one, and checks all entries again. No
// contender gets ahead of an entry whose turn has come.
func (a *all) wait(ctx context.Context, es []*Entry, ps []position) error {
	for i, p := range ps {
		if !a.canEnter(es, ps) && p.admitted {
			es[i].Begin(a.each[i].Values) // it is renewed while it waits for the other entries
		}
	}
	for !a.canEnter(es, ps) {
		var in atomic.Int32
		allIn := make(chan struct{})
		err := a.together(ctx, func(ctx context.Context, i int) error {
			if err := a.each[i].wait(ctx, es[i], ps[i]); err != nil {
				return err
			}
			ps[i] = position{admitted: true}
			if int(in.Add(1)) == len(es) {
				close(allIn)
			}
			return outlast(ctx, es[i], allIn)
		})
		if err != nil {
			return err
		}
	}
	return zkconn.ContextError(ctx)
}

// outlast waits until done is closed. If the entry or ctx ends first, it returns the reason.
func outlast(ctx context.Context, e *Entry, done <-chan struct{}) error {
	for {
		changed, err := e.Watch()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-done:
			return nil
		case <-ctx.Done():
			return zkconn.ContextError(ctx)
		}
	}
}

// canEnter reports whether all entries may enter now.
func (a *all) canEnter(es []*Entry, ps []position) bool {
	session := a.Conn.Session()
	for i, e := range es {
		if next, _ := admit(ps[i], e.Fresh(session)); next != enter {
			return false
		}
	}
	return true
}

// withdrawAll withdraws the entries that are not nil.
func withdrawAll(es []*Entry) {
	for _, e := range es {
		if e != nil {
			e.withdraw()
		}
	}
}

// together runs f for all contenders concurrently, and waits for all calls. If one call fails, the
// context of all calls ends; together then returns the first error, and sets a.at to its index.
func (a *all) together(ctx context.Context, f func(ctx context.Context, i int) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed sync.Once
	var wg sync.WaitGroup
	for i := range a.each {
		wg.Go(func() {
			if why := f(ctx, i); why != nil {
				failed.Do(func() {
					a.at, err = i, why
					cancel()
				})
			}
		})
	}
	wg.Wait()
	return err
}
