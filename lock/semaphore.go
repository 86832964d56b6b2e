package lock

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// MaxPermits is how many permits a semaphore has at most.
const MaxPermits = znode.MaxPermits

// Semaphore is a lock with many holders at a time, that together have no more than so many
// permits. As [Mutex] it is a name and some settings, and has no state.
//
// It is fair: first come, first served. A contender that asks for many permits waits until
// so many are free. Those behind it wait too, even if their permits are free: so it does
// not starve. The first waiter watches all holders of permits, the others only the entry
// right ahead of them. Each release wakes one waiter.
//
//	session lost, expired     holds go on; waiters keep their places
//	lease not renewed         the hold ends, and its permits are free after the grace; a
//	                          waiter queues again at the end
//	Client.Close              holds end, and their entries are deleted; waiters withdraw
//	Client.Revoke             all holders of permits are told by Revoked, and decide
//	context ends, in Acquire  the entry is withdrawn; those behind it may enter
//	Semaphore.Resize          holds go on; waiters learn of it
//	Hold.Detach               its permits stay taken, and the hold goes on where it is attached to
//
// A hold has all the permits that were asked for, and gives them back together. It is not
// re-entrant: each Acquire asks for permits of its own. A holder that asks for more may wait for
// itself, or for another holder that does the same: ask for all at once.
//
// The lock's node stores how many permits there are, for as long as it is there: until the
// last contender leaves, or for good where the policy has keep_parent. All clients have to
// say the same number. A different one is refused with [ErrPermits], which names both.
//
// Fencing tokens are unique and rise with the order of the queue; but several holds are
// valid at the same time, so a resource cannot refuse a token for being lower than another.
type Semaphore struct {
	r       recipe
	permits int
}

// Semaphore returns the semaphore of that name with so many permits, at most
// [MaxPermits], as [Client.Mutex] does.
func (c *Client) Semaphore(name string, permits int, opts ...LockOption) *Semaphore {
	s := &Semaphore{c.recipe(znode.Semaphore, name, opts), permits}
	if s.r.err == nil && (permits < 1 || permits > MaxPermits) {
		s.r.err = invalid("permits", permits, "must be within 1..%d", MaxPermits)
	}
	return s
}

// Name returns the name of the lock.
func (s *Semaphore) Name() string { return s.r.name }

// Validate returns what is wrong with the name, the number of permits or an option, as
// [Mutex.Validate] does.
func (s *Semaphore) Validate() error { return s.r.validate() }

// Acquire waits until it is its turn and n permits are free, and returns the hold on them.
// It fails as [Mutex.Lock] does; with [ErrPermits] if the semaphore was made with another
// number of permits; and with [ErrInvalid] if n is not positive, or more than
// the number that the Semaphore was made with. If [Semaphore.Resize] has left less, it waits.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Hold, error) {
	return s.take(ctx, n, acquire)
}

// TryAcquire returns the hold on n permits if so many are free and no contender waits, and
// otherwise a [HeldError], as [Mutex.TryLock] does. It fails as Acquire does for the rest.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Hold, error) {
	return s.take(ctx, n, try)
}

// Do runs f while it has n permits, as [Mutex.Do] does.
func (s *Semaphore) Do(ctx context.Context, n int, f func(context.Context) error) error {
	return runHeld(ctx, func() (*Hold, error) { return s.take(ctx, n, acquire) }, f)
}

// TryDo runs f while it has n permits, or skips it, as [Mutex.TryDo] does: also if fewer are
// free, or a contender waits.
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

// permitsOf returns the request for n permits.
func (s *Semaphore) permitsOf(ctx context.Context, n int) (queue.Request, error) {
	r, err := s.request(ctx, "n", n)
	if err == nil && n > s.permits {
		err = invalid("n", n, "must be at most the permits that semaphore %q has, %d", s.r.name, s.permits)
	}
	return r, err
}

// request checks the arguments of a call.
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

// Resize changes how many permits there are to n, for all clients of the semaphore, until
// its node goes: when the last contender leaves, or never where the policy has keep_parent.
// All clients go on saying the number that it was made with.
//
// Added permits are there at once. To take some away Resize waits in the queue, as Acquire
// does, until so many are free. Once it has returned, no more than n are held. It fails as
// Acquire does. If ctx ends, it may or may not have been done.
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
	r.Values = c.asks(ctx)
	if err := c.queue.Resize(bound, r, int32(n)); err != nil {
		return fmt.Errorf("resize %q to %d: %w", r.Lock, n, err)
	}
	return nil
}
