package lock

import (
	"context"
	"errors"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Mutex is a lock that one holder has at a time. It is a name and some settings
// and has no state: taking it gives a [Hold]. A client may make any number of
// them for one name, at no cost.
type Mutex struct {
	client *Client
	name   string
	settings
	err error // of the name or an option
}

// Mutex returns the mutex of that name: a path relative to the client's root,
// such as "orders/42". A name or an option that is not allowed is reported when
// the lock is taken.
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	if c.zero() {
		return &Mutex{name: name, err: invalid("client", nil, "must come from Dial or New")}
	}
	s, err := c.cfg.settingsFor(name, opts)
	return &Mutex{client: c, name: name, settings: s, err: err}
}

// Name returns the name of the lock.
func (m *Mutex) Name() string {
	if m == nil {
		return ""
	}
	return m.name
}

// Lock waits for its turn, first come first served, and returns the hold. When
// ctx ends first its entry is withdrawn and the error is ctx's error and cause,
// and a [HeldError] if somebody was seen in the way. It fails at once if the
// path is not ours to use: [ErrForeign], [ErrKind], [ErrDenied]. An outage of
// ZooKeeper is waited out.
//
// If ctx comes from a valid hold of the same lock and client, the result is
// another handle on that hold, which ends when all its handles were unlocked. A hold
// that is in doubt, see [Hold.Remaining], is confirmed before.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	if m != nil && m.barging {
		return m.take(ctx, (*queue.Queue).Barge)
	}
	return m.take(ctx, (*queue.Queue).Acquire)
}

// TryLock returns the hold if nobody is in the way, and otherwise a [HeldError],
// which is [ErrHeld], without waiting and without having written anything but, once
// after each change of ZooKeeper's leader, the mark of its epoch.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) { return m.take(ctx, (*queue.Queue).Try) }

// Do runs f while it has the lock. The context of f ends with ctx, and when the
// hold is lost; the result is then a [LostError], joined with what f returns.
func (m *Mutex) Do(ctx context.Context, f func(context.Context) error) (err error) {
	if f == nil {
		return invalid("function", nil, "must not be nil")
	}
	hold, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Unlock()) }()
	inner, cancel := context.WithCancelCause(hold.carriedBy(ctx))
	defer cancel(nil)
	defer context.AfterFunc(hold.Context(), func() { cancel(hold.Err()) })()
	return f(inner)
}

func (m *Mutex) take(ctx context.Context, how func(*queue.Queue, context.Context, queue.Request) (*queue.Entry, error)) (*Hold, error) {
	switch {
	case m == nil || m.err == nil && m.client == nil:
		return nil, invalid("mutex", nil, "must come from a client")
	case m.err != nil:
		return nil, m.err
	case ctx == nil:
		return nil, invalid("context", nil, "must not be nil")
	}
	return m.client.take(ctx, queue.Request{
		Lock: m.name, Kind: znode.Mutex, Role: znode.Exclusive, Terms: m.terms(), KeepParent: m.KeepParent,
	}, how)
}
