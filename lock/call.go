package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// bind returns a context that ends with ctx, or when the client closes, and a function that
// releases the context's resources.
func (c *Client) bind(ctx context.Context) (context.Context, func()) {
	if ctx.Done() == nil {
		return c.open, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.open, func() { cancel(zkconn.ErrClosing) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// checkContext returns an error if ctx is nil or has ended. Each call with a context makes this
// check before it sends a request.
func checkContext(ctx context.Context, what, name string) error {
	switch {
	case ctx == nil:
		return invalid("context", nil, "must not be nil")
	case ctx.Err() != nil:
		return zkconn.Reveal(fmt.Errorf("%s %q: %w", what, name, zkconn.ContextError(ctx)))
	}
	return nil
}

// enter begins a call. It fails with ErrClosed if the client has closed. Otherwise the caller must
// call end; Close waits for that call. bound is the result of bind.
func (c *Client) enter(ctx context.Context, what, name string) (bound context.Context, end func(), err error) {
	if c.open.Err() != nil || !c.tasks.Enter() {
		return nil, nil, fmt.Errorf("%s %q: %w", what, name, ErrClosed)
	}
	bound, release := c.bind(ctx)
	return bound, func() {
		release()
		c.tasks.Leave()
	}, nil
}

// begin checks the context and the name of a lock, and then begins a call as enter does.
func (c *Client) begin(ctx context.Context, what, name string) (bound context.Context, end func(), err error) {
	if err := znode.CheckName(name); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := checkContext(ctx, what, name); err != nil {
		return nil, nil, err
	}
	return c.enter(ctx, what, name)
}

// reentry is the key under which a hold's context carries its entry.
type reentry struct {
	client *Client
	lock   string
}

// take takes a lock by the method how. If ctx carries a hold of the lock that has not ended, take
// returns another handle on that hold; but a semaphore's hold is never re-entered.
func (c *Client) take(ctx context.Context, r queue.Request, how how) (*Hold, error) {
	if e, ok := ctx.Value(reentry{c, r.Lock}).(*queue.Entry); ok && e.Kind == r.Kind && r.Kind != znode.Semaphore {
		bound, end, err := c.enter(ctx, "lock", r.Lock)
		if err != nil {
			return nil, err
		}
		defer end()
		switch again, err := c.reenter(ctx, bound, e, r.Role != znode.Shared); {
		case err == nil:
			return again, nil
		case errors.Is(err, lease.ErrShared):
			return nil, fmt.Errorf("lock %q: %w: the context belongs to a hold for reading, which would wait for itself; unlock it, take the lock for writing, and read again", r.Lock, ErrUpgrade)
		case e.Err() == nil && !errors.Is(err, ErrUnlocked):
			return nil, zkconn.Reveal(fmt.Errorf("lock %q: confirm the hold to re-enter: %w", r.Lock, err))
		}
	}
	return c.takeNew(ctx, r, how)
}

// takeNew takes a lock by the method how; it does not re-enter a hold that ctx carries. The caller
// has checked the context.
func (c *Client) takeNew(ctx context.Context, r queue.Request, how how) (*Hold, error) {
	bound, end, err := c.enter(ctx, "lock", r.Lock)
	if err != nil {
		return nil, err
	}
	defer end()
	c.warnStarved(r.Lock, r.Terms.TTL)
	r.Values = c.withRequestState(ctx)
	e, err := how(c.queue, bound, r)
	if err == nil && c.open.Err() != nil && !errors.Is(e.Err(), ErrDetached) { // the client closed meanwhile
		e.Lose(ErrClosed)
		err = ErrClosed
	}
	if err != nil {
		c.reportWithdrawn(&r)
		return nil, zkconn.Reveal(notTaken(bound, c.clock.Now(), r.Lock, err))
	}
	h := c.holdOf(e, r.Values)
	h.permits = r.Capacity
	return h, nil
}

// reenter returns another handle on the hold of e, which ctx carries. It fails with ErrUnlocked if
// the tenancy that ctx carries has ended. With toWrite it fails with lease.ErrShared if e is held
// for reading.
func (c *Client) reenter(ctx, bound context.Context, e *queue.Entry, toWrite bool) (*Hold, error) {
	t, _ := ctx.Value(tenant{c, e.Lock()}).(*tenancy)
	if t != nil && t.e != e { // the context also carries the values of an earlier hold
		t = nil
	}
	if t != nil && !t.enter() {
		return nil, ErrUnlocked
	}
	err := e.Reenter(bound, toWrite)
	if t.entered(); err != nil {
		t.leave()
		return nil, err
	}
	return &Hold{hold{client: c, e: e, t: t}}, nil
}

// notTaken wraps the error of a call that did not get the named lock. If another contender was in
// the way, the result is a HeldError; if ctx has ended too, the result also matches the reason. now is
// ensemble time.
func notTaken(ctx context.Context, now znode.Now, lock string, err error) error {
	var inTheWay *queue.Blocked
	if !errors.As(err, &inTheWay) {
		return fmt.Errorf("lock %q: %w", lock, err)
	}
	held := heldError(lock, inTheWay, now)
	if ctx.Err() == nil {
		return held
	}
	if held.Owner == "" { // it names the entry's path instead: once is enough
		err = cmp.Or(inTheWay.Ended, err)
	}
	return fmt.Errorf("%w: gave up waiting: %w", held, err)
}

// warnStarved logs a warning if the TTL is shorter than the session timeout: a connection that stalls
// would then cost the hold. It warns again only of a TTL that is less than half of the last one. go-zookeeper notices a dead connection after two
// thirds of the session timeout, and a renewal is due every third of the TTL.
func (c *Client) warnStarved(lock string, ttl time.Duration) {
	if ttl >= c.cfg.sessionTimeout {
		return
	}
	c.mu.Lock()
	warns := c.warnedTTL == 0 || ttl < c.warnedTTL/2
	if warns {
		c.warnedTTL = ttl
	}
	c.mu.Unlock()
	if warns {
		c.cfg.log.Warn().Str("lock", lock).Stringer("ttl", ttl).Stringer("session_timeout", c.cfg.sessionTimeout).
			Stringer("dead_connection_noticed_after", c.cfg.sessionTimeout*2/3).Stringer("left_of_ttl_at_a_renewal", ttl*2/3).
			Msg("the TTL is shorter than the session timeout: a connection that stalls will cost holds of this lock; raise the one or lower the other")
	}
}
