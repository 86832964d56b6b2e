package queue

import (
	"context"
	"errors"
	"path"
	"slices"
	"sync/atomic"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// all has the contenders for several locks that are taken together, or the one contender of a join
// for one lock.
//
// One transaction creates all their entries. So two clients that want several locks are in the
// same order in each queue that they share. A waiter waits only for entries older than its own,
// so no deadlock is possible, in whatever order the caller names the locks. If one entry has gone,
// all are withdrawn: a new entry for one lock would be in a different order.
type all struct {
	*Queue
	each []*joiner // sorted by the names of the locks
	at   int       // index of the failed request; -1: none in particular

	refusals int // number of refused attempts of the present join
}

// holds has the entries of several locks, sorted by the names of the locks.
type holds struct {
	es []*Entry
	at int // index of the request with the error; -1: none in particular
}

// AcquireAll queues up for several locks and waits until it holds all of them, or ctx ends. With try it
// does not wait, as Try. The requests must be for different locks, sorted by name. The entries are in
// the same order. If AcquireAll fails, it holds no lock. It fails as Acquire and Try do, and returns the
// index of the failed request; -1 if the error is not about one request.
func (q *Queue) AcquireAll(ctx context.Context, rs []Request, try bool) ([]*Entry, int, error) {
	a := &all{Queue: q, at: -1}
	cs := make([]*contender, len(rs))
	for i, r := range rs {
		cs[i] = newContender(q, r)
		a.each = append(a.each, &joiner{contender: cs[i]})
	}
	h, err := abandonable(ctx, q, cs, func(ctx context.Context) (holds, error) {
		es, err := a.acquire(ctx, try)
		return holds{es, a.at}, err
	}, func(holds) { a.withdraw() })
	if err != nil && ctx.Err() != nil {
		h.at = a.waitsAt(err)
	}
	return h.es, h.at, err
}

// waitsAt returns the index of the lock at which the error's Blocked was in the way; -1 if the error
// has none. It can run beside acquire, so it reads only what is constant: the contenders.
func (a *all) waitsAt(err error) int {
	var b *Blocked
	if !errors.As(err, &b) {
		return -1
	}
	return slices.IndexFunc(a.each, func(j *joiner) bool { return b.Path == j.parent || path.Dir(b.Path) == j.parent })
}

// acquire joins all queues until it holds all locks. A try first checks that all locks look free.
func (a *all) acquire(ctx context.Context, try bool) ([]*Entry, error) {
	if try {
		if err := a.together(ctx, (*joiner).looksFree); err != nil {
			return nil, err
		}
	}
	for {
		err := a.join(ctx)
		if err != nil {
			return nil, err
		}
		if err = a.enter(ctx); err == nil {
			es := make([]*Entry, len(a.each))
			for i, j := range a.each {
				es[i] = j.e
			}
			return es, nil
		}
		if a.withdraw(); !errors.Is(err, lease.ErrGone) {
			return nil, err
		}
		a.requeued.Add(1)
		a.Log.Warn().Str("lock", a.each[max(0, a.at)].Lock).AnErr("why", err).
			Msg("lost the place in one of several queues; queueing again at the end of all of them")
	}
}

// resolveCreates looks for the entries of drafts after a lost reply. Either all were created or
// none. If only some are found, the transaction was applied during the search, or another client
// has removed some: then resolveCreates withdraws all and fails. Its error is for Retry, which joins again
// unless a search has failed.
func (a *all) resolveCreates(ctx context.Context, created lease.Created) (err error) {
	for i, j := range a.each {
		if j.e, err = j.resolveCreate(ctx, created, j.d); j.e != nil {
			continue
		}
		a.withdraw()
		for k, j := range a.each {
			if k == i { // resolveCreate has looked for it
				continue
			}
			j.orphan(j.d.attempt)
			if j.e == nil {
				j.Tasks.Go(j.d.remove)
			}
		}
		if err != nil {
			return zkconn.Final(err)
		}
		return zkconn.NotSent(errors.New("the entry was not created"))
	}
	return nil
}

// enter waits until the turn of all entries has come, and grants them.
func (a *all) enter(ctx context.Context) error {
	if err := a.wait(ctx); err != nil {
		return err
	}
	return a.together(ctx, func(j *joiner, ctx context.Context) error { return j.grant(ctx, j.e) })
}

// wait waits until all entries can enter at the same moment. While one entry waits for its turn, the
// lease of another may run short. Then wait renews that one, and checks all entries again. No
// contender gets ahead of an entry whose turn has come.
func (a *all) wait(ctx context.Context) error {
	for _, j := range a.each {
		if !a.canEnter() && j.p.admitted {
			j.e.Begin(j.Values) // it is renewed while it waits for the other entries
		}
	}
	for !a.canEnter() {
		var in atomic.Int32
		allIn := make(chan struct{})
		err := a.together(ctx, func(j *joiner, ctx context.Context) error {
			if err := j.wait(ctx, j.e, j.p); err != nil {
				return err
			}
			j.p = position{admitted: true}
			if int(in.Add(1)) == len(a.each) {
				close(allIn)
			}
			return outlast(ctx, j.e, allIn)
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
func (a *all) canEnter() bool {
	session := a.Conn.Session()
	for _, j := range a.each {
		if next, _ := admit(j.p, j.e.Fresh(session)); next != enter {
			return false
		}
	}
	return true
}

// withdraw withdraws the entries.
func (a *all) withdraw() {
	for _, j := range a.each {
		if j.e != nil {
			j.e.withdraw()
		}
	}
}
