package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// RWMutex is a lock that many have at a time to read, or one to write. As [Mutex] it is
// a name and some settings, and has no state.
//
// It is fair: first come, first served. A waiting writer holds back later readers, so that
// a stream of readers starves no writer. Each waiter waits for one earlier contender at a
// time that it conflicts with. A reader waits for the writer right ahead of it. A writer
// waits for that too if there are readers in between, and then for these. No contender
// waits for a later one, so two cannot wait for each other.
//
//	                          hold for reading                 hold for writing
//	session lost, expired     goes on                          goes on
//	lease not renewed         ends, and a writer may enter     ends, and others may enter
//	                          after the grace                  after the grace
//	Client.Close              ends; the entry is deleted       the same
//	context ends, in RLock    the entry is withdrawn           the same; readers that waited behind
//	or Lock                                                    it enter if no other one is in the way
//	Client.Revoke             all readers are told by Revoked,   is told by Revoked, and decides
//	                          and decide
//	Hold.Downgrade            nothing changes                  readers enter beside it; it keeps its
//	                                                           place, and its token
//	Hold.Detach               goes on where it is attached     the same
//	                          to; not if others of the client
//	                          read by the same entry
//
// A waiter keeps its place when a session ends, as with a [Mutex], and withdraws when the
// client closes.
//
// Fencing tokens: that of a writer is higher than those of all earlier holders, and that of
// a reader higher than those of all earlier writers. Readers that hold it at the same time
// may have come in another order than their tokens.
//
// On the wire it is what Curator's InterProcessReadWriteLock is, so that the two can
// share a path; the doc of package znode says what to mind.
type RWMutex struct{ r recipe }

// RWMutex returns the read/write lock of that name, as [Client.Mutex] does.
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	return &RWMutex{c.recipe(znode.RW, name, opts)}
}

// Name returns the name of the lock.
func (m *RWMutex) Name() string { return m.r.name }

// Validate returns what is wrong with the name or an option, as [Mutex.Validate] does.
func (m *RWMutex) Validate() error { return m.r.validate() }

// RLock waits until it is its turn to read, and returns the hold. It fails as [Mutex.Lock]
// does. It is re-entrant, also by the context of a hold for writing.
func (m *RWMutex) RLock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Shared, acquire)
}

// TryRLock returns the hold if no writer is in the way, and otherwise a [HeldError], as
// [Mutex.TryLock] does. A waiting writer is in the way too.
func (m *RWMutex) TryRLock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Shared, try)
}

// Lock waits until it is its turn to write, and returns the hold. It fails as [Mutex.Lock]
// does. It is re-entrant by the context of a hold for writing.
//
// If ctx comes from a hold for reading, Lock fails with [ErrUpgrade] at once: it would wait
// for its own reader, and two readers that want to write would wait for each other. If you
// may have to write after reading, take the lock to write from the start. Or unlock, take
// the lock anew, and read again, because another client may have written in between:
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

// TryLock returns the hold for writing if no other contender is in the way, and otherwise a
// [HeldError], as [Mutex.TryLock] does; and [ErrUpgrade] where Lock does.
func (m *RWMutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.r.take(ctx, znode.Writer, try)
}

// RDo runs f while it has the lock for reading, as [Mutex.Do] does.
func (m *RWMutex) RDo(ctx context.Context, f func(context.Context) error) error {
	return m.r.do(ctx, znode.Shared, f)
}

// Do runs f while it has the lock for writing, as [Mutex.Do] does.
func (m *RWMutex) Do(ctx context.Context, f func(context.Context) error) error {
	return m.r.do(ctx, znode.Writer, f)
}

// TryRDo runs f while it has the lock for reading, or skips it, as [Mutex.TryDo] does.
func (m *RWMutex) TryRDo(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	return m.r.tryDo(ctx, znode.Shared, f)
}

// TryDo runs f while it has the lock for writing, or skips it, as [Mutex.TryDo] does.
func (m *RWMutex) TryDo(ctx context.Context, f func(context.Context) error) (ran bool, err error) {
	return m.r.tryDo(ctx, znode.Writer, f)
}

// Reads reports whether the hold is one for reading: of an [RWMutex], and taken by
// [RWMutex.RLock] or downgraded, in the process before too if it was attached to.
func (h *Hold) Reads() bool { return h.e.Reads() }

// Downgrade makes a hold for reading of an [RWMutex]'s hold for writing, without a gap: no
// client can write in between. From the call on the holder must not write any more, whatever
// Downgrade returns. Readers right behind it enter, and so do later ones unless a writer
// waits before them. The hold, its context and token stay the same, and its lease begins
// anew, as with each renewal. There is no way back, see [RWMutex.Lock].
//
// It waits until ZooKeeper has acknowledged it. If ctx had ended before the call, nothing
// changes. If it ends meanwhile, the hold is one for reading all the same, and readers are
// let in when the next renewal tells them. A hold for reading stays as it is. A hold of
// another kind of lock, or one that was taken again by its context and may be writing
// there, is an [ErrInvalid]; a hold that has ended returns why.
func (h *Hold) Downgrade(ctx context.Context) error {
	switch err := h.check(ctx, "downgrade"); {
	case err != nil:
		return err
	case h.e.Kind != znode.RW:
		return h.cannot("is of a %s, and only that of an RWMutex can be downgraded", h.e.Kind)
	case h.e.Name().Role == znode.Shared:
		return nil
	}
	err := h.e.Share(ctx)
	if !errors.Is(err, lease.ErrReentered) {
		h.e.Unplace() // goroutines that wait to write get another entry
	}
	if errors.Is(err, lease.ErrReentered) {
		return h.cannot("has other handles, and cannot be downgraded: unlock those first that were taken by its context")
	}
	if err != nil {
		return fmt.Errorf("downgrade %q: %w", h.Name(), err)
	}
	return nil
}
