package lock

import "context"

// reentry is the key under which a hold's context carries its entry.
type reentry struct {
	client *Client
	lock   string
}

// anew is ctx as one by which no hold of that lock of the client's is entered again.
func (c *Client) anew(ctx context.Context, lock string) context.Context {
	if ctx == nil {
		return nil
	}
	return anewContext{ctx, reentry{c, lock}}
}

type anewContext struct {
	context.Context
	hidden reentry
}

func (c anewContext) Value(key any) any {
	if key == any(c.hidden) {
		return nil
	}
	return c.Context.Value(key)
}
