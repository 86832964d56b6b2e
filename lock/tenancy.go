package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/queue"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// tenancy is a hold by an entry that other goroutines of the client may hold too: that of
// readers, see [WithLocalWindow]. It ends with the entry, or when its own handles were all
// unlocked, whichever is first.
type tenancy struct {
	client *Client
	e      *queue.Entry
	pass   int32
	since  time.Duration // monotonic time
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   atomic.Bool // its end was told

	mu       sync.Mutex
	handles  int
	entering int // of them, which the entry may not have counted yet
}

// tenant is the key under which a hold's context carries its tenancy.
type tenant reentry

// heldTogether reports whether an entry that was granted is held by tenancies.
func heldTogether(e *queue.Entry) bool {
	return e.Kind == znode.RW && e.Placed() && e.Name().Role == znode.Shared
}

// holdOf gives out a hold by an entry that was just taken with these values.
func (c *Client) holdOf(e *queue.Entry, values context.Context) *Hold {
	h := &Hold{client: c, e: e}
	if !heldTogether(e) {
		return h
	}
	t := &tenancy{client: c, e: e, pass: e.NextHolder(), since: c.clock.Mono(), handles: 1}
	h.t = t
	t.ctx, t.cancel = context.WithCancelCause(h.carriedBy(context.WithoutCancel(values)))
	t.tell(lease.Change{To: lease.Held}) // before its end can be told
	e.OnEnd(t, t.cancel)
	if t.ctx.Err() != nil {
		t.ended()
	}
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
	t.entering++
	return true
}

// entered takes the news that the entry has counted one more handle, or will not.
func (t *tenancy) entered() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entering--
}

// alone reports whether no other tenancy has the entry; none comes to have it after that.
// While one of its own handles comes or goes it may report false.
func (t *tenancy) alone() bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.e.PinAlone(int32(t.handles - t.entering))
}

// leave counts one less, and ends the tenancy with the last one.
func (t *tenancy) leave() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.handles--
	last := t.handles == 0
	t.mu.Unlock()
	if last {
		t.e.OnEnd(t, nil)
		t.cancel(ErrUnlocked)
		t.ended()
	}
}

// ended tells of the end of a tenancy whose context has ended.
func (t *tenancy) ended() { t.tell(lease.Change{From: lease.Held, To: lease.Ended}) }

// tell tells the observers of a change of the tenancy, of its end once.
func (t *tenancy) tell(change lease.Change) {
	if change.To == lease.Ended {
		if t.over.Swap(true) {
			return
		}
		if change.Why = context.Cause(t.ctx); change.Lost() {
			t.client.lost.Add(1)
		}
	}
	if len(t.client.cfg.observers) > 0 {
		token := tokenOf(t.e)
		token.Pass = t.pass
		t.client.tellOf(t.e, change, token, t.since, t.ctx)
	}
}
