package lock

import (
	"context"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// Mutex is a lock with one holder at a time. It has a name and settings, and no state; its methods
// return a [Hold]. A client may make any number of Mutexes of one name, at no cost.
//
//	                          while it waits                     while it is held
//	session lost, expired     keeps its place                    goes on
//	lease not renewed         queues again at the end            ends; the next waiter enters after
//	                                                             the grace
//	ctx of Lock ends          the entry is withdrawn             nothing: the hold has its own context
//	Client.Close              the entry is withdrawn             ends; the entry is deleted
//	Client.Revoke             nothing                            Revoked receives the request; your
//	                                                             program decides
//	Mutex.WithBarging         has no place: the first client     no difference
//	                          that sees the lock free gets it
type Mutex struct{ named }

// Mutex returns the mutex of that name: a path relative to the client's root, such as "orders/42".
// It asks no server. If the name or an option is not allowed, [Mutex.Validate] and all other
// methods return the same [ErrInvalid].
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	return &Mutex{named{c.recipe(znode.Mutex, name, opts)}}
}

// WithBarging returns a mutex of the same name and settings that does not queue: its Lock waits until
// the lock is free, and then takes it if no other client is quicker. So a lock that is free only for
// moments may go to the same process again and again, and some clients may wait for long. In return
// there are fewer requests, and no handoff to a sleeping waiter. Contenders with and without barging can
// be mixed. Contenders in the queue go first, since the lock is not free while they wait.
//
// A dead holder still blocks for its TTL and the grace. Use barging for work that any process may do, as
// long as one does.
func (m *Mutex) WithBarging() *Mutex {
	r := m.r
	r.barging = true
	return &Mutex{named{r}}
}

// Lock waits for its turn, first come first served, and returns the hold. If ctx ends first, Lock
// withdraws its entry; the error matches ctx's error and cause, and is a [HeldError] if another
// contender was in the way. If the path is not a usable lock, Lock fails at once with [ErrForeign],
// [ErrKind], [ErrDenied] or [ErrExhausted]. Lock waits out an outage of ZooKeeper. If ctx comes from a hold of the
// same lock, the result is another handle on that hold: see "Re-entry" in the doc of this package.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Exclusive, acquire)
}

// TryLock returns the hold if no other contender is in the way, and otherwise a [HeldError], which
// matches [ErrHeld]. TryLock does not wait for the lock. It first asks the server to catch up with
// the leader. A failed try leaves no node behind, except perhaps the mark of the leader's epoch,
// see package znode.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Exclusive, try)
}

// Do runs f while it holds the lock. The context of f ends with ctx, or when the hold is lost. Do
// returns the errors of f and of [Hold.Unlock], joined. If [Mutex.Lock] fails, Do returns its error
// and does not run f.
func (m *Mutex) Do(ctx context.Context, f func(context.Context) error) error {
	return m.r.do(ctx, znode.Exclusive, f)
}

// TryDo runs f as Do does if no other contender is in the way. Otherwise it skips f: ran is false
// and the error nil. It does not wait, see [Mutex.TryLock]. An error with ran false says that the
// try failed; an [ErrHeld] with ran true comes from f.
func (m *Mutex) TryDo(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	return m.r.tryDo(ctx, znode.Exclusive, f)
}
