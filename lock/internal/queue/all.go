package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// all are contenders for several locks that are to be held together.
//
// One transaction makes all their entries, so two of those who want several locks stand
// in the same order in each queue that they share. Who waits, waits for entries that are
// older than its own: so they cannot wait for each other, not by any detour either. That
// is lost if one entry is made again by itself. So if one has gone all are withdrawn, and
// made anew.
type all struct {
	*Queue
	each []*contender // by the names of their locks, so that doors are locked in one order
	at   int          // place of the one that an error is about; -1: of none in particular
}

// AcquireAll queues up for several locks and waits until all of them are acquired, or ctx
// ends. The requests are for different locks, and sorted by their names; the entries are
// in the same order. Nothing is held if it fails: as Acquire does, and with the place of
// the request that the error is about, or -1.
func (q *Queue) AcquireAll(ctx context.Context, rs []Request) (es []*Entry, at int, err error) {
	return q.contendAll(ctx, rs, (*all).acquire)
}

// TryAll takes several locks if nobody is in the way at any of them. For the rest it is as
// Try and AcquireAll are.
func (q *Queue) TryAll(ctx context.Context, rs []Request) (es []*Entry, at int, err error) {
	return q.contendAll(ctx, rs, (*all).try)
}

func (q *Queue) contendAll(ctx context.Context, rs []Request, run func(*all, context.Context) ([]*Entry, error)) ([]*Entry, int, error) {
	a := &all{Queue: q, each: make([]*contender, len(rs)), at: -1}
	for i, r := range rs {
		a.each[i] = q.newContender(r)
		a.each[i].gate = a.each[0].door
		defer q.closeDoor(a.each[i].door)
	}
	es, err := run(a, ctx)
	if err != nil && ctx.Err() != nil {
		for i, c := range a.each {
			if c.lastBlocker != nil {
				a.at, err = i, gaveUp(c.lastBlocker, err)
				break
			}
		}
	}
	return es, a.at, err
}

func (a *all) acquire(ctx context.Context) ([]*Entry, error) {
	for {
		es, ps, err := a.join(ctx)
		if err != nil {
			return nil, err
		}
		if spent := a.spent(es, ps); spent >= 0 {
			if err := a.drain(ctx, es, spent); err != nil {
				return nil, err
			}
			continue
		}
		if err = a.enter(ctx, es, ps); err == nil {
			return es, nil
		}
		a.takeBack(es)
		if !errors.Is(err, lease.ErrGone) {
			return nil, err
		}
		a.requeued.Add(1)
		a.Log.Warn().Str("lock", a.each[a.at].Lock).Str("entry", es[a.at].Path).AnErr("why", err).
			Msg("lost the place in one of several queues; queueing again at the end of all of them")
	}
}

// try looks at all locks before it joins any queue.
func (a *all) try(ctx context.Context) ([]*Entry, error) {
	for i, c := range a.each { // what is kept there for others of ours nobody has
		if err := a.Release(ctx, c.Lock); err != nil {
			a.at = i
			return nil, err
		}
	}
	if err := a.together(ctx, func(ctx context.Context, i int) error { return a.each[i].looksFree(ctx) }); err != nil {
		return nil, err
	}
	for {
		es, ps, err := a.join(ctx)
		if err != nil {
			return nil, err
		}
		if spent := a.spent(es, ps); spent >= 0 {
			a.at, err = spent, &Blocked{Path: a.each[spent].parent}
		}
		if err == nil && !admitted(ps) {
			err = a.together(ctx, func(ctx context.Context, i int) (err error) {
				ps[i], err = a.each[i].clearWay(ctx, es[i], ps[i])
				return err
			})
		}
		if err == nil {
			err = a.enter(ctx, es, ps)
		}
		if err == nil {
			return es, nil
		}
		if a.takeBack(es); !errors.Is(err, lease.ErrGone) {
			return nil, err
		}
	}
}

// enter waits until the turn of all has come, and makes holds of them.
func (a *all) enter(ctx context.Context, es []*Entry, ps []position) error {
	waited := !admitted(ps)
	if err := a.await(ctx, es, ps); err != nil {
		return err
	}
	grant := func(ctx context.Context, i int) error { return a.each[i].grant(ctx, es[i], waited) }
	for i, c := range a.each {
		if c.Terms.Fixed && !es[i].Recorded() { // to grant it takes a write
			return a.together(ctx, grant)
		}
	}
	for i := range a.each {
		if err := grant(ctx, i); err != nil {
			a.at = i
			return err
		}
	}
	return nil
}

// await waits until it is the turn of each. While one has to wait, the leases of others
// may come near their ends: it goes on until all can enter at the same moment. Nobody
// gets ahead of one whose turn has come.
func (a *all) await(ctx context.Context, es []*Entry, ps []position) error {
	if !admitted(ps) {
		for i, p := range ps {
			if p.admitted {
				es[i].Begin(a.each[i].Values) // it is to be kept alive while it waits for the others
			}
		}
	}
	for !a.in(es, ps) {
		var in atomic.Int32
		allIn := make(chan struct{})
		err := a.together(ctx, func(ctx context.Context, i int) error {
			if err := a.each[i].await(ctx, es[i], ps[i]); err != nil {
				return err
			}
			ps[i], a.each[i].lastBlocker = position{admitted: true}, nil
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

// outlast waits until done is closed, unless the entry or ctx ends before.
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

// admitted reports whether nobody is ahead of any.
func admitted(ps []position) bool {
	for _, p := range ps {
		if !p.admitted {
			return false
		}
	}
	return true
}

// in reports whether all may enter as they are.
func (a *all) in(es []*Entry, ps []position) bool {
	session := a.Conn.Session()
	for i, e := range es {
		if next, _ := decide(ps[i], e.Fresh(session)); next != enter {
			return false
		}
	}
	return true
}

// takeBack withdraws what is left of the entries.
func (a *all) takeBack(es []*Entry) {
	for i, e := range es {
		if e != nil {
			a.each[i].takeBack(e)
		}
	}
}

// spent is the place of an entry near the end of its parent's counter which is not
// alone, or -1.
func (a *all) spent(es []*Entry, ps []position) int {
	for i, e := range es {
		if e.Name().Draining() && !ps[i].admitted {
			return i
		}
	}
	return -1
}

// drain takes the entries back, and waits until the counter of one's parent has begun
// anew.
func (a *all) drain(ctx context.Context, es []*Entry, spent int) error {
	c, e := a.each[spent], es[spent]
	a.at, es[spent] = spent, nil
	a.takeBack(es)
	return c.drain(ctx, e)
}

// together has f done for all at the same time. If one fails, the others are told to
// end, and its error is returned.
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
