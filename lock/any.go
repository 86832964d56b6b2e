package lock

import (
	"cmp"
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Any is a set of mutexes. A call locks one of them: for example to use one test environment of a
// pool, one license seat, or one worker number. Any has no state. Its methods return a [Hold];
// [Hold.Name] is the name of the lock that was taken. The locks are ordinary mutexes:
// [Client.Mutex] of the same name is the same lock.
//
// Taking a free lock costs a [Mutex.TryLock] of that lock, and of each held lock before it. If all
// locks are held, a waiter has an entry in each queue, first come, first served. The first grant
// wins, and all other entries are withdrawn. If a second lock is granted in the same moment, it is
// unlocked at once; observers then see that lock acquired and released. In [Stats], a waiter counts
// once for each lock.
//
//	event                        while it waits                      while it holds
//	ctx ends                     all entries are withdrawn           nothing: the hold has its own context
//	Client.Close                 all entries are withdrawn           the hold ends; its entry is deleted
//	session lost or expired      all entries stay                    the hold lasts
//	no renewal in time           queues again at the end of each     the hold is lost
//	                               queue whose entry has expired
//	Client.Revoke of one         nothing                             Revoked of the hold receives the request
//	                                                                 if it is of that lock; your program decides
//	path refused (ErrForeign,    all entries are withdrawn; the      nothing
//	  ErrKind, ErrDenied)          error names the lock
//	process dies                 each entry blocks for its TTL and grace
type Any struct {
	client *Client
	each   []recipe // in the order of the caller's names
	err    error    // the first mistake in a name or an option; every method returns it
}

// Any returns the set of the named mutexes. If several of the locks are free, a call takes the
// first one in the order of names. The options apply to each mutex, on top of its policy. Any asks
// no server. If an argument is not allowed, [Any.Validate] and all other methods return an
// [ErrInvalid]. There must be 1 to [MaxAny] names, and no name twice.
func (c *Client) Any(names []string, opts ...LockOption) *Any {
	each, err := c.mutexes(names, MaxAny, opts)
	return &Any{client: c, each: each, err: err}
}

// Validate returns an [ErrInvalid] if a name or an option is not allowed, as [Mutex.Validate]
// does.
func (a *Any) Validate() error {
	if a.err == nil && a.client == nil {
		return errNoClient
	}
	return a.err
}

// Lock waits until it gets one of the locks, and returns its hold. It fails as [Mutex.Lock] does,
// with an error that names one of the locks. If it fails, it holds none of the locks, and its
// entries are withdrawn.
//
// If ctx carries a hold of one of the locks, Lock re-enters that lock. To take a second one, use a
// context without that hold.
func (a *Any) Lock(ctx context.Context) (*Hold, error) {
	hold, err := a.TryLock(ctx)
	if _, held := err.(*HeldError); held { // not errors.As: a wrapped HeldError has another reason
		return a.await(ctx)
	}
	return hold, err
}

// TryLock takes the first lock that has no other contender in the way, and returns its hold. If
// every lock has a contender in the way, TryLock returns the [HeldError] of the first lock. TryLock
// does not wait, see [Mutex.TryLock]. It re-enters as Lock does.
func (a *Any) TryLock(ctx context.Context) (*Hold, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	if err := checkContext(ctx, "lock any of", a.each[0].name); err != nil {
		return nil, err
	}
	var inTheWay error
	for _, reenters := range []bool{true, false} {
		for i := range a.each {
			if r := &a.each[i]; r.reenters(ctx) == reenters {
				hold, err := r.take(ctx, znode.Exclusive, try)
				if _, held := err.(*HeldError); !held {
					return hold, err
				}
				inTheWay = cmp.Or(inTheWay, err)
			}
		}
	}
	return nil, inTheWay
}

// reenters reports whether ctx carries a hold of the lock that has not ended.
func (r *recipe) reenters(ctx context.Context) bool {
	e, ok := ctx.Value(reentry{r.client, r.name}).(*queue.Entry)
	return ok && e.Kind == r.kind && e.Err() == nil
}

// await waits in the queues of all locks. The first grant, or the first error, decides. Then the
// other waits end. If another wait still gets a hold, that hold is unlocked in the background;
// Client.Close waits for the unlock.
func (a *Any) await(ctx context.Context) (*Hold, error) {
	type result struct {
		hold *Hold
		err  error
	}
	first, decided := make(chan result), make(chan struct{}) // unbuffered: one result is taken
	defer close(decided)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range a.each {
		r := &a.each[i]
		if !a.client.tasks.Go(func() {
			hold, err := r.take(ctx, znode.Exclusive, acquire)
			select {
			case first <- result{hold, err}:
			case <-decided:
				if err == nil {
					hold.Unlock() // an error is logged, and the entry is deleted later or expires
				}
			}
		}) {
			return nil, fmt.Errorf("lock %q: %w", r.name, ErrClosed)
		}
	}
	won := <-first
	return won.hold, won.err
}
