package lock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// All is a set of mutexes that are locked together: all of them or none. It has no state; its
// methods return [Holds]. The locks are ordinary mutexes: [Client.Mutex] of the same name is the
// same lock.
//
// One transaction creates all entries. So calls of All never deadlock with each other, in whatever
// order they name the locks. If the locks are free, taking them costs one transaction together. If
// other clients use the locks all the time, it costs a small transaction more for each lock. A waiter
// has an entry in each queue, first come, first served. In each queue its entry blocks the entries
// behind it, even where its entry is first. A call of All while the caller holds other locks can
// deadlock: name all locks that you need.
//
//	event                        while it waits                      while it holds
//	ctx ends, Close              all entries are withdrawn           Close: all holds end
//	session lost or expired      all entries stay                    all holds last
//	no renewal in time           queues again at the end of all      the hold is lost, and Context ends;
//	  (of any entry)               queues, with new entries            the other holds last until Unlock
//	Client.Revoke of one         nothing                             Revoked of that hold receives the
//	                                                                 request; your program decides
//	path refused (ErrForeign,    all entries are withdrawn; the
//	  ErrKind, ErrDenied)          error names the lock
//	process dies                 each entry blocks for its TTL and grace
type All struct {
	client *Client
	each   []recipe // sorted by name
	err    error    // the first mistake in a name or an option; every method returns it
}

// All returns the set of the named mutexes. The options apply to each of them, on top of its
// policy. All asks no server. If an argument is not allowed, [All.Validate] and all other methods
// return an [ErrInvalid]. The requirements:
//
//   - There are 1 to [MaxAll] names, and no name twice.
//   - The entries fit into one transaction of [MaxTxn] bytes. Long names, ACLs ([WithACL]) and
//     metadata make them larger.
func (c *Client) All(names []string, opts ...LockOption) *All {
	each, err := c.mutexes(names, MaxAll, opts)
	a := &All{client: c, each: each, err: err}
	slices.SortFunc(a.each, func(x, y recipe) int { return strings.Compare(x.name, y.name) })
	size := 0
	for _, r := range a.each {
		size += r.size()
	}
	if size > MaxTxn { // the server would end the connection at each attempt
		a.err = cmp.Or(a.err, invalid("names", fmt.Sprintf("(%d of them)", len(names)),
			"must be fewer: their entries, with paths, ACLs and metadata, have %d bytes, and at most %d fit into one transaction", size, MaxTxn))
	}
	return a
}

// mutexes returns the recipes of the named mutexes. It fails unless there are 1 to most names, no
// name twice, and all names and options are allowed.
func (c *Client) mutexes(names []string, most int, opts []LockOption) (each []recipe, err error) {
	if n := len(names); n < 1 || n > most {
		return nil, invalid("names", fmt.Sprintf("(%d of them)", n), "must be 1 to %d names", most)
	}
	for i, name := range names {
		r := c.recipe(znode.Mutex, name, opts)
		if r.err == nil && slices.Contains(names[:i], name) {
			r.err = invalid("names", fmt.Sprintf("%q", names), "must differ: %q stands there twice", name)
		}
		err = cmp.Or(err, r.err)
		each = append(each, r)
	}
	return each, err
}

// size returns an upper estimate of the bytes of the operations that create the lock's entry:
// creates of the parent, the anchor and the entry, the delete of a guard, and a write of the parent.
func (r *recipe) size() int {
	c := r.client.cfg
	size := 5*len(c.root+r.name) + len(c.owner+c.host) + 1<<10
	for _, a := range c.acl {
		size += 3 * (len(a.Scheme) + len(a.ID) + 12)
	}
	metadata, _ := json.Marshal(r.metadata) // a map of strings always encodes
	return size + len(metadata)
}

// Validate returns an [ErrInvalid] if a name or an option is not allowed, as [Mutex.Validate]
// does.
func (a *All) Validate() error {
	if a.err == nil && a.client == nil {
		return errNoClient
	}
	return a.err
}

// Lock waits for its turn at all of the locks, and returns their holds. It fails as [Mutex.Lock]
// does. If it fails, it holds none of the locks, and its entries are withdrawn.
//
// If ctx carries holds of all of the locks, Lock re-enters them. If ctx carries holds of only some
// of the locks, Lock fails with [ErrInvalid]: a holder that waits for more locks can cause a
// deadlock.
func (a *All) Lock(ctx context.Context) (*Holds, error) {
	return a.take(ctx, false)
}

// TryLock returns the holds if no other contender is in the way at any of the locks. Otherwise it
// returns a [HeldError] for one of the locks. TryLock does not wait, see [Mutex.TryLock].
func (a *All) TryLock(ctx context.Context) (*Holds, error) {
	return a.take(ctx, true)
}

// Do runs f while it holds all of the locks. The context of f ends with ctx, or when one of the
// holds is lost. Do returns the errors of f and of [Holds.Unlock], joined. If [All.Lock] fails, Do
// returns its error and does not run f.
func (a *All) Do(ctx context.Context, f func(context.Context) error) error {
	return runHeld(ctx, func() (*Holds, error) { return a.Lock(ctx) }, f)
}

// TryDo runs f as Do does if no other contender is in the way at any of the locks. Otherwise it
// skips f, as [Mutex.TryDo] does.
func (a *All) TryDo(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	return runUnlessHeld(ctx, func() (*Holds, error) { return a.TryLock(ctx) }, f)
}

// requests returns the request for each lock, sorted by name.
func (a *All) requests(ctx context.Context) ([]queue.Request, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	rs := make([]queue.Request, len(a.each))
	for i := range a.each {
		var err error
		if rs[i], err = a.each[i].request(ctx, znode.Exclusive); err != nil {
			return nil, err
		}
	}
	return rs, nil
}

func (a *All) take(ctx context.Context, try bool) (*Holds, error) {
	requests, err := a.requests(ctx)
	if err != nil {
		return nil, err
	}
	c := a.client
	bound, end, err := c.enter(ctx, "lock", a.each[0].name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a, ErrClosed)
	}
	defer end()
	if again, err := a.reenter(ctx, bound); again != nil || err != nil {
		return again, err
	}
	in := &jointContext{Context: ctx, client: c}
	for i := range requests {
		c.warnStarved(requests[i].Lock, requests[i].Terms.TTL)
		requests[i].Values = c.withRequestState(in)
	}
	es, at, err := c.queue.AcquireAll(bound, requests, try)
	if err == nil && c.open.Err() != nil { // the client closed meanwhile
		for _, e := range es {
			e.Lose(ErrClosed)
		}
		err = ErrClosed
	}
	switch {
	case err == nil:
		in.each.Store(&es)
		return newHolds(c, es), nil
	case at >= 0:
		return nil, zkconn.Reveal(notTaken(bound, c.clock.Now(), requests[at].Lock, err))
	}
	return nil, zkconn.Reveal(fmt.Errorf("%s: %w", a, err))
}

// reenter returns another handle on each hold that ctx carries. The result is nil if ctx carries a
// hold of none of the locks. If ctx carries holds of only some of the locks, reenter fails with
// ErrInvalid.
func (a *All) reenter(ctx, bound context.Context) (*Holds, error) {
	var es []*queue.Entry
	var missing string
	for _, r := range a.each {
		if e, ok := ctx.Value(reentry{a.client, r.name}).(*queue.Entry); ok && e.Kind == r.kind && e.Err() == nil {
			es = append(es, e)
		} else {
			missing = r.name
		}
	}
	switch {
	case len(es) == 0:
		return nil, nil
	case missing != "":
		return nil, invalid("context", fmt.Sprintf("of a hold of %q", es[0].Lock()),
			"must not be used to take it together with %q, which it does not hold: waiting for one lock while holding another can cause a deadlock; take all of them together, or %[1]q alone", missing)
	}
	for i, e := range es {
		if err := e.Reenter(bound, true); err != nil {
			err = zkconn.Reveal(fmt.Errorf("lock %q: confirm the hold to re-enter: %w", e.Lock(), err))
			if i > 0 { // undo the handles made so far
				err = errors.Join(err, newHolds(a.client, es[:i]).Unlock())
			}
			return nil, err
		}
	}
	return newHolds(a.client, es), nil
}

// String names the locks, for errors.
func (a *All) String() string {
	names := make([]string, len(a.each))
	for i, r := range a.each {
		names[i] = r.name
	}
	return fmt.Sprintf("locks %q", names)
}

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
		wg.Go(func() { leaves[i], errs[i] = h.endHandle(end) }) // a hold may have to wait for its transaction
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
