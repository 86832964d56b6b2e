package lock

import "context"

// reentry is the key under which a hold's context carries its entry.
type reentry struct {
	client *Client
	lock   string
}

// anew returns ctx without re-entry: a call with it takes a new hold of that lock.
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
