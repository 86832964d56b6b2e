package lock

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// recipe is what the kinds of locks have in common: a name and some settings, and no
// state.
type recipe struct {
	client *Client
	name   string
	kind   znode.Kind
	settings
	err error // of the name or an option
}

// recipe returns that of a lock of the client's.
func (c *Client) recipe(kind znode.Kind, name string, opts []LockOption) recipe {
	s, err := c.cfg.settingsFor(name, opts)
	if err == nil && s.barging && kind != znode.Mutex {
		err = invalid("option", "WithBarging", "is for a Mutex, and not for a lock of kind %s", kind)
	}
	return recipe{client: c, name: name, kind: kind, settings: s, err: err}
}

// how is one of the ways into a queue.
type how func(*queue.Queue, context.Context, queue.Request) (*queue.Entry, error)

// acquire waits, and try does not.
var acquire, try how = (*queue.Queue).Acquire, (*queue.Queue).Try

// errNoClient is the error of a lock that is the zero value of its type.
var errNoClient = invalid("lock", "{}", "must come from a client")

// validate returns what is wrong with the name or an option.
func (r *recipe) validate() error {
	if r.err == nil && r.client == nil {
		return errNoClient
	}
	return r.err
}

// request is what a contender in that role asks for.
func (r *recipe) request(ctx context.Context, role znode.Role) (queue.Request, error) {
	if err := r.validate(); err != nil {
		return queue.Request{}, err
	}
	if err := checkContext(ctx, "lock", r.name); err != nil {
		return queue.Request{}, err
	}
	request := queue.Request{
		Lock: r.name, Kind: r.kind, Role: role, Terms: r.terms(), KeepParent: r.KeepParent, Barging: r.barging,
		Window: max(0, min(r.LocalWindow, r.TTL/3)).Truncate(time.Millisecond),
	}
	request.Idle = request.MayKeep(r.Idle)
	return request, nil
}

// take takes the lock in a role.
func (r *recipe) take(ctx context.Context, role znode.Role, how how) (*Hold, error) {
	request, err := r.request(ctx, role)
	if err != nil {
		return nil, err
	}
	return r.client.take(ctx, request, how)
}

// do runs f while it has the lock in a role.
func (r *recipe) do(ctx context.Context, role znode.Role, f func(context.Context) error) error {
	return runHeld(ctx, func() (*Hold, error) { return r.take(ctx, role, acquire) }, f)
}

// tryDo runs f if it gets the lock in a role at once.
func (r *recipe) tryDo(ctx context.Context, role znode.Role, f func(context.Context) error) (ran bool, err error) {
	return runUnlessHeld(ctx, func() (*Hold, error) { return r.take(ctx, role, try) }, f)
}

// held is a [Hold], or [Holds].
type held interface {
	Context() context.Context
	Err() error
	Unlock() error
	carriedBy(context.Context) context.Context
}

// runHeld takes a lock, or several, and runs f while they are held.
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

// runUnlessHeld tries to take a lock, or several, and runs f while they are held. If another
// contender holds one, it does nothing.
func runUnlessHeld[H held](ctx context.Context, try func() (H, error), f func(context.Context) error) (ran bool, err error) {
	run := f
	if f != nil {
		run = func(ctx context.Context) error {
			ran = true
			return f(ctx)
		}
	}
	err = runHeld(ctx, try, run)
	if _, held := err.(*HeldError); held && !ran { // by itself: the call has not ended otherwise
		err = nil
	}
	return ran, err
}
