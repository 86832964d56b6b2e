package lock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	return a.take(ctx, (*queue.Queue).AcquireAll)
}

// TryLock returns the holds if no other contender is in the way at any of the locks. Otherwise it
// returns a [HeldError] for one of the locks. TryLock does not wait, see [Mutex.TryLock].
func (a *All) TryLock(ctx context.Context) (*Holds, error) {
	return a.take(ctx, (*queue.Queue).TryAll)
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

// howAll is a method of [queue.Queue] that takes several locks. If the method fails because of one
// request, the int is the index of that request; otherwise it is -1.
type howAll func(*queue.Queue, context.Context, []queue.Request) ([]*queue.Entry, int, error)

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

func (a *All) take(ctx context.Context, how howAll) (*Holds, error) {
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
	es, at, err := how(c.queue, bound, requests)
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
