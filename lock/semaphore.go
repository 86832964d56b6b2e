package lock

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Semaphore is a lock with many holders at a time, which share a limited number of permits. Like
// [Mutex] it has a name and settings, and no state.
//
// It is fair: first come, first served. A contender that asks for many permits waits until that
// many are free. The contenders behind it wait too, even if their permits are free. So a contender
// that asks for many permits does not starve. The first waiter watches the lock's children. Each
// other waiter watches the entry right ahead, and the entry whose end may make room for it. So a
// release does not wake all waiters.
//
//	session lost, expired     holds go on; waiters keep their places
//	lease not renewed         the hold ends, and its permits are free after the grace; a waiter
//	                          queues again at the end
//	Client.Close              holds end, and their entries are deleted; waiters withdraw
//	Client.Revoke             Revoked of each hold receives a request; your program decides
//	context ends, in Acquire  the entry is withdrawn; waiters behind it may enter
//	Semaphore.Resize          holds go on; waiters enter or wait by the new number
//	Hold.Detach               its permits stay taken, and the hold goes on where a client attaches
//
// A hold has all requested permits, and releases them together. It is not re-entrant: each Acquire
// asks for its own permits. A holder that asks for more may wait for itself, or for another holder
// that does the same. So ask for all permits at once.
//
// The lock's node stores the number of permits until the last contender leaves, or forever if the
// policy has keep_parent. All clients must give the same number. A different number is refused
// with [ErrPermits]; its message has both.
//
// Fencing tokens are unique and rise with the order of the queue. But several holds are valid at
// the same time, so a resource cannot refuse a token because it is lower than another.
type Semaphore struct {
	named
	permits int
}

// Semaphore returns the semaphore of that name with that many permits, at most [MaxPermits], as
// [Client.Mutex] does.
func (c *Client) Semaphore(name string, permits int, opts ...LockOption) *Semaphore {
	s := &Semaphore{named{c.recipe(znode.Semaphore, name, opts)}, permits}
	if s.r.err == nil && (permits < 1 || permits > MaxPermits) {
		s.r.err = invalid("permits", permits, "must be within 1..%d", MaxPermits)
	}
	return s
}

// Acquire waits for its turn and until n permits are free, and returns the hold on them. It fails
// as [Mutex.Lock] does. It fails with [ErrPermits] if the semaphore exists with another number of
// permits, and with [ErrInvalid] if n is not positive or exceeds the number given to
// [Client.Semaphore]. If [Semaphore.Resize] has left fewer than n permits, Acquire waits for
// another Resize.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Hold, error) {
	return s.take(ctx, n, acquire)
}

// TryAcquire returns the hold on n permits if that many are free and no contender waits.
// Otherwise it returns a [HeldError], as [Mutex.TryLock] does. Its other errors are those of
// Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Hold, error) {
	return s.take(ctx, n, try)
}

// Do runs f while it holds n permits, as [Mutex.Do] does.
func (s *Semaphore) Do(ctx context.Context, n int, f func(context.Context) error) error {
	return runHeld(ctx, func() (*Hold, error) { return s.take(ctx, n, acquire) }, f)
}

// TryDo runs f while it holds n permits, as [Mutex.TryDo] does. It skips f if fewer than n permits
// are free, or a contender waits.
func (s *Semaphore) TryDo(ctx context.Context, n int, f func(context.Context) error) (ran bool, err error) {
	return runUnlessHeld(ctx, func() (*Hold, error) { return s.take(ctx, n, try) }, f)
}

func (s *Semaphore) take(ctx context.Context, n int, how how) (*Hold, error) {
	r, err := s.permitsOf(ctx, n)
	if err != nil {
		return nil, err
	}
	return s.r.client.take(ctx, r, how)
}

// permitsOf returns the request for n permits. It fails if n exceeds the number given to
// Client.Semaphore.
func (s *Semaphore) permitsOf(ctx context.Context, n int) (queue.Request, error) {
	r, err := s.request(ctx, "n", n)
	if err == nil && n > s.permits {
		err = invalid("n", n, "must be at most the permits that semaphore %q has, %d", s.r.name, s.permits)
	}
	return r, err
}

// request checks a call for n permits, and returns its request. argument names n in an error.
func (s *Semaphore) request(ctx context.Context, argument string, n int) (queue.Request, error) {
	r, err := s.r.request(ctx, znode.Exclusive)
	if err != nil {
		return r, err
	}
	if n < 1 || n > MaxPermits {
		return r, invalid(argument, n, "must be within 1..%d", MaxPermits)
	}
	r.Permits, r.Capacity = int32(n), int32(s.permits)
	return r, nil
}

// Resize changes the number of permits to n, from 1 to [MaxPermits], for all clients of the
// semaphore. The change lasts until the lock's node is deleted: when the last contender leaves, or
// never if the policy has keep_parent. All clients still give the original number.
//
// Added permits are available at once. To remove permits, Resize waits in the queue, as Acquire
// does, until the permits to remove are free. Once it has returned without an error, at most n
// permits are held. It fails as Acquire does. If ctx ends, the number may or may not have changed.
func (s *Semaphore) Resize(ctx context.Context, n int) error {
	r, err := s.request(ctx, "permits", n)
	if err != nil {
		return err
	}
	c := s.r.client
	bound, end, err := c.enter(ctx, "resize", r.Lock)
	if err != nil {
		return err
	}
	defer end()
	r.Values = c.withRequestState(ctx)
	if err := c.queue.Resize(bound, r, int32(n)); err != nil {
		c.reportWithdrawn(&r)
		return zkconn.Reveal(fmt.Errorf("resize %q to %d: %w", r.Lock, n, err))
	}
	return nil
}
