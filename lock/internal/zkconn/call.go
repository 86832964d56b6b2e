package zkconn

import "context"

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
	done := make(chan result, 1) // buffered: no goroutine receives the result of an abandoned call
	go func() {
		defer c.calls.Leave()
		value, err := f()
		if !c.Owned() && endsConnection(err) { // a borrowed connection has no event for that
			c.noteDown()
		}
		done <- result{value, answered(err)}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, abandon(ctx)
	}
}
