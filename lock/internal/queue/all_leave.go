package queue

import (
	"context"
	"sync"
)

// parentsTried is how many of several parents may turn out to be in use by others, each at
// the cost of a transaction, before the rest are looked at one by one.
const parentsTried = 4

// LeaveAll has entries of different locks leave: in one transaction if that can be done,
// with the parents where they are alone. It returns for each what Leave does.
func (q *Queue) LeaveAll(ctx context.Context, es []*Entry) []error {
	all, place := make([]*leaving, len(es)), make(map[*leaving]int, len(es))
	for i, e := range es {
		all[i] = new(leaving)
		all[i].begin(q, e)
		all[i].announce = false
		place[all[i]] = i
	}
	errs := make([]error, len(es))
	gone, apart := q.leaveTogether(ctx, all, parentsTried)
	var wg sync.WaitGroup
	for _, l := range apart {
		wg.Go(func() { errs[place[l]] = q.leave(ctx, l) })
	}
	for _, l := range gone {
		if l.alone || l.linger || l.keep {
			l.gone(ctx, 0, census{}) // asks nothing
			q.closeDoor(l.door)
			continue
		}
		wg.Go(func() {
			defer q.closeDoor(l.door)
			l.gone(ctx, 0, census{})
		})
	}
	wg.Wait()
	return errs
}
