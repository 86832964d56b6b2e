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

// tenancy is a reader's hold of an entry that other readers of the client may share, see
// [WithLocalWindow]. It ends with the entry, or when all its own handles are unlocked, whichever is
// first.
type tenancy struct {
	client *Client
	e      *queue.Entry
	pass   int32
	since  time.Duration // monotonic time of the grant
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   atomic.Bool  // the end was reported
	risk   atomic.Int64 // lease.Change.Leased of the last reported risk

	mu       sync.Mutex
	handles  int
	entering int // handles that the entry may not have counted yet
}

// tenant is the key under which a hold's context carries its tenancy.
type tenant reentry

// heldTogether reports whether several tenancies can hold a granted entry.
func heldTogether(e *queue.Entry) bool {
	return e.Kind == znode.RW && e.Placed() && e.Name().Role == znode.Shared
}

// holdOf returns a hold of an entry that was just taken. values is the context of the request; the
// hold's context has its values. If several readers can share the entry, holdOf also reports the
// grant to the observers.
func (c *Client) holdOf(e *queue.Entry, values context.Context) *Hold {
	h := &Hold{hold{client: c, e: e}}
	if !heldTogether(e) {
		return h
	}
	t := &tenancy{client: c, e: e, pass: e.NextHolder(), since: c.clock.Mono(), handles: 1}
	h.t = t
	t.ctx, t.cancel = context.WithCancelCause(h.carriedBy(context.WithoutCancel(values)))
	t.tell(lease.Change{To: lease.Held}) // before its end can be reported
	e.OnEnd(t, func(why error) { t.cancel(t.own(why)) })
	if change, atRisk := e.Risk(); atRisk { // the risk was reported before this hold received reports
		t.tell(change)
	}
	if t.ctx.Err() != nil {
		t.ended()
	}
	return h
}

// own returns why an entry was lost with the token of this tenancy instead of the entry's.
func (t *tenancy) own(why error) error {
	lost, ok := why.(*LostError)
	if t == nil || !ok {
		return why
	}
	own := *lost
	own.Token.parts.Pass = t.pass
	return &own
}

// enter counts one more handle. If the tenancy has ended, enter counts nothing and returns false.
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

// entered ends the uncertainty that enter began: the entry has counted the new handle, or will not.
func (t *tenancy) entered() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entering--
}

// alone pins the entry, and reports whether no other tenancy shares it. If so, no other tenancy can
// share the entry later either. While a handle of the tenancy is made or unlocked, alone may return
// false although no other tenancy shares the entry.
func (t *tenancy) alone() bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.e.PinAlone(int32(t.handles - t.entering))
}

// leave counts one handle less, and ends the tenancy with the last one.
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

// ended reports the end of a tenancy whose context has ended.
func (t *tenancy) ended() { t.tell(lease.Change{From: lease.Held, To: lease.Ended}) }

// tell reports a change of the tenancy to the observers. It reports the end once, and each risk once.
func (t *tenancy) tell(change lease.Change) {
	if change.AtRisk() && t.risk.Swap(int64(change.Leased)) == int64(change.Leased) {
		return
	}
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
		token.parts.Pass = t.pass
		t.client.tellOf(t.e, change, token, t.since, t.ctx)
	}
}
