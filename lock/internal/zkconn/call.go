package zkconn

import (
	"context"
	"time"
)

// call runs f, a call of go-zookeeper, which takes no context and can block while the connection
// is down. If ctx ends first, the call is abandoned with an unknown outcome.
func call[T any](ctx context.Context, c *Conn, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, NotSent(ContextError(ctx))
	}
	if !c.calls.Enter() {
		return none, NotSent(ErrClosed)
	}
	if c.runInline(ctx) {
		c.inline.Add(1)
		defer c.calls.Leave()
		defer c.inline.Add(-1)
		value, err := f()
		return value, named(err)
	}
	done := make(chan result, 1) // buffered: no goroutine receives the result of an abandoned call
	go func() {
		defer c.calls.Leave()
		value, err := f()
		if !c.Owned() && endsConnection(err) { // a borrowed connection has no event for that
			c.noteDown()
		}
		done <- result{value, named(err)}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, abandoned{ContextError(ctx)}
	}
}

// runInline reports whether a call may ignore its context once it has begun, because the connection
// would fail before the context ends. That is known only for an owned connection and a context of
// Uncancellable: go-zookeeper gives up a silent server after two thirds of the session timeout.
// Another twelfth of it is time to notice that.
func (c *Conn) runInline(ctx context.Context) bool {
	if _, ok := ctx.(uncancellable); !ok || !c.Owned() {
		return false
	}
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) >= time.Duration(c.granted.Load())*3/4
}

// stuck reports whether a failed connection has left inline calls unsent. go-zookeeper has already
// failed the calls that were sent; stuck first gives them a millisecond to return.
func (c *Conn) stuck() bool {
	if c.inline.Load() == 0 {
		return false
	}
	time.Sleep(time.Millisecond)
	return c.inline.Load() > 0
}
