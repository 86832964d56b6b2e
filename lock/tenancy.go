package lock

import (
	"context"
	"sync"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// tenancy is a hold by an entry that other goroutines of the client may hold too: that of
// readers, see [WithLocalWindow]. It ends with the entry, or when its own handles were all
// unlocked, whichever is first.
type tenancy struct {
	e      *queue.Entry
	pass   int32
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	handles int
}

// tenant is the key under which a hold's context carries its tenancy.
type tenant reentry

// holdOf gives out a hold by an entry that was just taken with these values.
func (c *Client) holdOf(e *queue.Entry, values context.Context) *Hold {
	h := &Hold{client: c, e: e}
	if !e.Seated() || e.Name().Role != znode.Shared {
		return h
	}
	t := &tenancy{e: e, pass: e.NextTenant(), handles: 1}
	h.t = t
	t.ctx, t.cancel = context.WithCancelCause(h.carriedBy(context.WithoutCancel(values)))
	e.OnEnd(t, t.cancel)
	return h
}

// enter counts one more handle. It reports false if the tenancy has ended.
func (t *tenancy) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handles == 0 {
		return false
	}
	t.handles++
	return true
}

// leave counts one less, and ends the tenancy with the last one.
func (t *tenancy) leave() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handles--; t.handles == 0 {
		t.e.OnEnd(t, nil)
		t.cancel(ErrUnlocked)
	}
}
