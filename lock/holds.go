package lock

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
)

// Holds are holds of several locks taken together, see [All]. Each is a [Hold] with its own lease
// and token. All methods are safe for concurrent use.
type Holds struct {
	client *Client
	each   []*Hold // sorted by the names of their locks

	mu  sync.Mutex
	ctx context.Context // nil before the first call of Context
}

func newHolds(c *Client, es []*queue.Entry) *Holds {
	hs := &Holds{client: c, each: make([]*Hold, len(es))}
	for i, e := range es {
		hs.each[i] = &Hold{hold{client: c, e: e}}
	}
	return hs
}

// All yields the holds, sorted by the names of their locks. Each of them can be unlocked alone;
// no lock can be added.
func (hs *Holds) All() iter.Seq[*Hold] { return slices.Values(hs.each) }

// Hold returns the hold of the named lock, or nil if hs has no hold of that lock.
func (hs *Holds) Hold(name string) *Hold {
	for _, h := range hs.each {
		if h.Name() == name {
			return h
		}
	}
	return nil
}

// Context returns a context that ends as soon as one of the holds ends. Its cause is that hold's
// [LostError], [ErrUnlocked] or [ErrDetached]. The context carries the values of the context that
// the locks were taken with, but not its end. A call with the context of the holds re-enters the
// locks: see "Re-entry" in the doc of this package.
func (hs *Holds) Context() context.Context {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.ctx == nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(hs.each[0].Context()))
		end := func(why error) { cancel(why) }
		for _, h := range hs.each {
			one := h.Context()
			if one.Err() != nil { // end hs.ctx now: AfterFunc does so a moment later
				end(context.Cause(one))
			}
			context.AfterFunc(one, func() { end(context.Cause(one)) })
		}
		hs.ctx = ctx
	}
	return hs.ctx
}

// carriedBy returns ctx with the holds added, so that calls with the result re-enter the locks.
func (hs *Holds) carriedBy(ctx context.Context) context.Context {
	es := make([]*queue.Entry, len(hs.each))
	for i, h := range hs.each {
		es[i] = h.e
	}
	in := &jointContext{Context: ctx, client: hs.client}
	in.each.Store(&es)
	return in
}

// jointContext is a context that carries the entries of locks held together. It carries none until
// each is set.
type jointContext struct {
	context.Context
	client *Client
	each   atomic.Pointer[[]*queue.Entry]
}

func (c *jointContext) Value(key any) any {
	if again, ok := key.(reentry); ok && again.client == c.client {
		if es := c.each.Load(); es != nil {
			for _, e := range *es {
				if e.Lock() == again.lock {
					return e
				}
			}
		}
	}
	return c.Context.Value(key)
}

// Err returns nil while all of the holds last. Then it returns the [Hold.Err] of the first, by
// name, that has ended.
func (hs *Holds) Err() error {
	for _, h := range hs.each {
		if err := h.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Remaining returns the time for which all of the locks are surely held even if all later
// renewals fail: the least [Hold.Remaining].
func (hs *Holds) Remaining() time.Duration {
	least := hs.each[0].Remaining()
	for _, h := range hs.each[1:] {
		least = min(least, h.Remaining())
	}
	return least
}

// Unlock ends all of the holds: first their contexts, then the entries in ZooKeeper. If no other
// contender is in the way, one transaction deletes all entries and the parents that are then empty.
// Each hold is unlocked as [Hold.Unlock] does, also if another one was lost. Unlock returns the
// joined errors, with a [LostError] for each lost hold. If all were unlocked before, it returns
// [ErrUnlocked].
func (hs *Holds) Unlock() error {
	c := hs.client
	if c.tasks.Enter() { // before the holds end, as in Hold.Unlock
		defer c.tasks.Leave()
	}
	var wg sync.WaitGroup
	leaves, errs := make([]bool, len(hs.each)), make([]error, len(hs.each))
	unlocked, end := 0, time.Now().Add(c.cfg.unlockTimeout)
	for i, h := range hs.each {
		if h.unlocked.Swap(true) {
			unlocked++
			continue
		}
		wg.Go(func() { leaves[i], errs[i] = h.giveBack(end) }) // a hold may have to wait for its transaction
	}
	wg.Wait()
	var leave []*queue.Entry
	for i, h := range hs.each {
		if leaves[i] {
			leave = append(leave, h.e)
		}
	}
	switch {
	case unlocked == len(hs.each):
		return ErrUnlocked
	case len(leave) == 0:
		return errors.Join(errs...)
	}
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	for i, err := range c.queue.LeaveAll(ctx, leave) {
		errs = append(errs, c.leaveResult(leave[i], err))
	}
	return errors.Join(errs...)
}
