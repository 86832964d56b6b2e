package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// RWMutex is a lock with many readers, or one writer, at a time. Like [Mutex] it has a name and
// settings, and no state.
//
// It is fair: first come, first served. A waiting writer holds back later readers, so that a stream
// of readers starves no writer. A waiter waits for one earlier contender at a time: a reader for
// the nearest writer ahead, a writer for the nearest contender ahead. No contender waits for a
// later one, so there is no deadlock.
//
//	                          hold for reading                 hold for writing
//	session lost, expired     goes on                          goes on
//	lease not renewed         ends, and a writer may enter     ends, and the next waiters may
//	                          after the grace                  enter after the grace
//	Client.Close              ends; the entry is deleted       the same
//	context ends, in RLock    the entry is withdrawn           the same; readers behind it enter if
//	or Lock                                                    no other writer is in the way
//	Client.Revoke             each reader's Revoked receives   Revoked receives the request; your
//	                          a request; your program decides  program decides
//	RWMutex.Downgrade         nothing changes                  readers enter beside it; it keeps its
//	                                                           place, and its token
//	Hold.Detach               goes on where a client attaches, the same
//	                          unless other readers of this
//	                          client share the entry
//
// A waiter keeps its place when a session ends, as with a [Mutex], and withdraws when the
// client closes.
//
// Fencing tokens: a writer's token is higher than those of all earlier holders. A reader's token is
// higher than those of all earlier writers. Readers that hold the lock at the same time may have
// entered in another order than their tokens.
//
// An RWMutex has the wire format of Curator's InterProcessReadWriteLock, so an RWMutex and
// Curator's lock can share a path. The doc of package znode has the limits.
type RWMutex struct{ named }

// RWMutex returns the read/write lock of that name, as [Client.Mutex] does.
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	return &RWMutex{named{c.recipe(znode.RW, name, opts)}}
}

// RLock waits for its turn to read, and returns the hold. It fails as [Mutex.Lock] does. With the
// context of a hold for reading or writing it re-enters that hold.
func (m *RWMutex) RLock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Shared, acquire)
}

// TryRLock returns the hold for reading if no writer holds the lock or waits ahead. Otherwise it
// returns a [HeldError], as [Mutex.TryLock] does.
func (m *RWMutex) TryRLock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Shared, try)
}

// Lock waits for its turn to write, and returns the hold. It fails as [Mutex.Lock] does. With the
// context of a hold for writing it re-enters that hold.
//
// If ctx comes from a hold for reading, Lock fails with [ErrUpgrade] at once: it would wait for its
// own reader, and two readers that want to write would wait for each other. If the work may have to
// write after reading, take the lock for writing from the start. Or unlock, take the lock for
// writing, and read again, because another client may have written in between:
//
//	read.Unlock()
//	write, err := catalog.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer write.Unlock()
//	// Read again, and only then write.
func (m *RWMutex) Lock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Writer, acquire)
}

// TryLock returns the hold for writing if no other contender is in the way. Otherwise it returns
// a [HeldError], as [Mutex.TryLock] does. With the context of a hold for reading it fails with
// [ErrUpgrade].
func (m *RWMutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Writer, try)
}

// RDo runs f while it holds the lock for reading, as [Mutex.Do] does.
func (m *RWMutex) RDo(ctx context.Context, f func(context.Context) error) error {
	return m.r.do(ctx, znode.Shared, f)
}

// Do runs f while it holds the lock for writing, as [Mutex.Do] does.
func (m *RWMutex) Do(ctx context.Context, f func(context.Context) error) error {
	return m.r.do(ctx, znode.Writer, f)
}

// TryRDo runs f while it holds the lock for reading, or skips it, as [Mutex.TryDo] does.
func (m *RWMutex) TryRDo(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	return m.r.tryDo(ctx, znode.Shared, f)
}

// TryDo runs f while it holds the lock for writing, or skips it, as [Mutex.TryDo] does.
func (m *RWMutex) TryDo(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	return m.r.tryDo(ctx, znode.Writer, f)
}

// Reads reports whether the hold of this lock is for reading: [RWMutex.RLock] acquired it, or
// [RWMutex.Downgrade] made it one. An RLock that re-enters a hold for writing returns a hold for
// writing. Detach and Attach do not change the result. It is false for a hold of another lock.
func (m *RWMutex) Reads(h *Hold) bool { return m.owns(h) && h.e.Reads() }

// owns reports whether the hold is of this lock, taken with the same client.
func (m *RWMutex) owns(h *Hold) bool {
	return h != nil && h.client == m.r.client && h.Name() == m.r.name && h.e.Kind == znode.RW
}

// Downgrade turns a hold of this lock for writing into a hold for reading, without a gap: no client
// can write in between. From the call on the holder must not write any more, whatever Downgrade
// returns. Readers right behind the hold enter, and so do later readers unless a writer waits
// before them. The hold keeps its context and token, and its lease is renewed. There is no way
// back, see [RWMutex.Lock].
//
// Downgrade waits until ZooKeeper has acknowledged the write. If ctx had ended before the call,
// Downgrade returns the context's error, and nothing changes. If ctx ends while Downgrade waits,
// the hold is already for reading, and the next renewal lets readers in. A hold for reading stays
// as it is. For a hold of another lock or client, or with other handles that may be writing, Downgrade
// fails with [ErrInvalid]. If the hold has ended, Downgrade returns the reason.
func (m *RWMutex) Downgrade(ctx context.Context, h *Hold) error {
	if err := m.r.validate(); err != nil {
		return err
	}
	if !m.owns(h) {
		return invalid("hold", "to downgrade", "must be of this lock %q, and taken with the same client", m.r.name)
	}
	switch err := h.check(ctx, "downgrade"); {
	case err != nil:
		return err
	case h.e.Name().Role == znode.Shared:
		return nil
	}
	err := h.e.Share(ctx)
	if !errors.Is(err, lease.ErrReentered) {
		h.e.Unplace() // goroutines that wait to write get another entry
	}
	if errors.Is(err, lease.ErrReentered) {
		return h.cannot("has other handles, and cannot be downgraded: first unlock those taken with its context")
	}
	if err != nil {
		return zkconn.Reveal(fmt.Errorf("downgrade %q: %w", h.Name(), err))
	}
	return nil
}
