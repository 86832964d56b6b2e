package lock

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// recipe is the common part of all kinds of locks: client, name and settings, and no state.
type recipe struct {
	client *Client
	name   string
	kind   znode.Kind
	settings
	barging bool  // no queue
	err     error // the first mistake in the name or an option; every method returns it
}

// named is a recipe with the methods that all kinds of single locks export.
type named struct{ r recipe }

// Name returns the name of the lock.
func (l *named) Name() string { return l.r.name }

// Validate returns an [ErrInvalid] if the name, an option or a semaphore's number of permits is not
// allowed. Call it if a lock is made long before it is taken, for example from a configuration at
// the start of a service. Validate asks no server.
func (l *named) Validate() error { return l.r.validate() }

// recipe returns the recipe of a lock. If the name or an option is not allowed, the recipe's err is
// an ErrInvalid.
func (c *Client) recipe(kind znode.Kind, name string, opts []LockOption) recipe {
	s, err := c.cfg.settingsFor(name, opts)
	return recipe{client: c, name: name, kind: kind, settings: s, err: err}
}

// how is a method of [queue.Queue] that takes a lock.
type how func(*queue.Queue, context.Context, queue.Request) (*queue.Entry, error)

// acquire waits for the lock. If another contender is in the way, try fails with a [queue.Blocked].
var acquire, try how = (*queue.Queue).Acquire, (*queue.Queue).Try

// errNoClient is the error of a lock that is the zero value of its type.
var errNoClient = invalid("lock", "{}", "must come from a client")

// validate returns an ErrInvalid for the first mistake in the name or an option, or for the zero
// recipe.
func (r *recipe) validate() error {
	if r.err == nil && r.client == nil {
		return errNoClient
	}
	return r.err
}

// request checks the recipe and ctx, and returns the request of a contender in that role.
func (r *recipe) request(ctx context.Context, role znode.Role) (queue.Request, error) {
	if err := r.validate(); err != nil {
		return queue.Request{}, err
	}
	if err := checkContext(ctx, "lock", r.name); err != nil {
		return queue.Request{}, err
	}
	return queue.Request{
		Lock: r.name, Kind: r.kind, Role: role, Terms: r.terms(), KeepParent: r.KeepParent, Barging: r.barging,
		Window: max(0, min(r.LocalWindow, r.TTL/3)).Truncate(time.Millisecond),
	}, nil
}

func (r *recipe) take(ctx context.Context, role znode.Role, how how) (*Hold, error) {
	request, err := r.request(ctx, role)
	if err != nil {
		return nil, err
	}
	return r.client.take(ctx, request, how)
}

func (r *recipe) do(ctx context.Context, role znode.Role, f func(context.Context) error) error {
	return runHeld(ctx, func() (*Hold, error) { return r.take(ctx, role, acquire) }, f)
}

func (r *recipe) tryDo(ctx context.Context, role znode.Role, f func(context.Context) error) (ran bool, err error) {
	return runUnlessHeld(ctx, func() (*Hold, error) { return r.take(ctx, role, try) }, f)
}

// held is a [Hold], a [Leadership] or [Holds].
type held interface {
	Context() context.Context
	Err() error
	Unlock() error
	carriedBy(context.Context) context.Context
}

// runHeld takes a lock, or several, runs f and unlocks. It joins the errors of f and of Unlock. The
// context of f ends with ctx, or when a hold ends.
func runHeld[H held](ctx context.Context, take func() (H, error), f func(context.Context) error) (err error) {
	if f == nil {
		return invalid("function", nil, "must not be nil")
	}
	hold, err := take()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Unlock()) }()
	inner, cancel := context.WithCancelCause(hold.carriedBy(ctx))
	defer cancel(nil)
	defer context.AfterFunc(hold.Context(), func() { cancel(hold.Err()) })()
	return f(inner)
}

// runUnlessHeld is like runHeld, but if try fails with a HeldError, it skips f and returns no
// error. ran reports whether f was called.
func runUnlessHeld[H held](ctx context.Context, try func() (H, error), f func(context.Context) error) (ran bool, err error) {
	run := f
	if f != nil {
		run = func(ctx context.Context) error {
			ran = true
			return f(ctx)
		}
	}
	err = runHeld(ctx, try, run)
	if _, held := err.(*HeldError); held && !ran { // not errors.As: a wrapped HeldError has another reason
		err = nil
	}
	return ran, err
}
