package zkconn

import (
	"context"
	"time"
)

// call runs f, a call of go-zookeeper's, which takes no context and can block for
// as long as the connection is down. If ctx ends first the call is abandoned, its
// outcome unknown; late, unless nil, gets the outcome whenever it comes.
func call[T any](ctx context.Context, c *Conn, f func() (T, error), late func(T, error)) (T, error) {
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
		return f()
	}
	done := make(chan result) // unbuffered: either side knows whether the other took it
	go func() {
		defer c.calls.Leave()
		value, err := f()
		if !c.Owned() && endsConnection(err) { // there are no events to tell
			c.noteDown()
		}
		select {
		case done <- result{value, err}:
		case <-ctx.Done():
			if late != nil {
				late(value, err)
			}
		}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, abandoned{ContextError(ctx)}
	}
}

// runInline reports whether a call need not heed its context once it has begun: the
// connection will have failed before that ends. It must be one of ours, which are
// known to give up a server that says nothing after two thirds of the session's
// timeout; a twelfth more is for that to be noticed.
func (c *Conn) runInline(ctx context.Context) bool {
	if _, ok := ctx.(uncancellable); !ok || !c.Owned() {
		return false
	}
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) >= time.Duration(c.granted.Load())*3/4
}

// stuck reports whether calls that run inline were left unsent by a connection that
// has failed. Those that were sent have been answered by now, and get a moment to go.
func (c *Conn) stuck() bool {
	if c.inline.Load() == 0 {
		return false
	}
	time.Sleep(time.Millisecond)
	return c.inline.Load() > 0
}
