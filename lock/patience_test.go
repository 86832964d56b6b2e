// Every call ends with its context, whatever has become of the server.

package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// outage is a way in which the server is there no more that a client talks to.
type outage struct {
	name  string
	begin func(w *world, astray *atomic.Bool)
	says  string // what is there instead
}

func outages() []outage {
	all := []outage{
		{name: "nothing comes back", begin: func(w *world, _ *atomic.Bool) { w.Partition("a") }},
		{name: "the connection is lost", begin: func(w *world, _ *atomic.Bool) {
			w.Partition("a")
			time.Sleep(sessionTimeout) // until that is noticed
		}},
	}
	for _, peer := range badPeers {
		all = append(all, outage{"the server " + peer.name, func(w *world, astray *atomic.Bool) {
			astray.Store(true)
			w.Cut("a")
			time.Sleep(time.Second) // until it is met
		}, peer.says})
	}
	return all
}

// TestCallsEndWithTheirContexts, whatever has become of the server. What listens in its place
// makes a difference to the connection alone, so two calls meet all of that.
func TestCallsEndWithTheirContexts(t *testing.T) {
	for i, out := range outages() {
		for what, call := range patientCalls {
			if i > 2 && what != "Lock" && what != "Extend" {
				continue
			}
			subtest(t, out.name+"/"+what, locktest.Options{}, func(w *world) {
				p := &impostor{says: out.says}
				dialer, astray := w.detour("a", p)
				a := w.dial("a", dialer)
				h := w.lock(a, "x", lock.WithTTL(10*ttl))
				ticket := left(w, a)
				heal := func() {
					astray.Store(false)
					p.hangUp()
					w.Heal("a")
				}
				out.begin(w, astray)

				const patience = 500 * time.Millisecond
				within(w, patience+soonAfter, what, func() {
					ctx := w.limited(patience)
					mustBe(w, call(ctx, a, h, ticket), context.DeadlineExceeded)
				}, heal)
				heal()
			})
		}
	}
}

// left is a ticket for a hold that was left.
func left(w *world, c *lock.Client) lock.Ticket {
	w.Helper()
	ticket, err := w.lock(c, "left", lock.WithTTL(10*ttl)).Detach(w.ctx, 10*ttl)
	w.ok(err)
	return ticket
}

// patientCalls are all that take a context, of a client that holds "x" and has a ticket.
var patientCalls = map[string]func(context.Context, *lock.Client, *lock.Hold, lock.Ticket) error{
	"Lock":                  on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("y").Lock(ctx)) }),
	"Lock of a held one":    on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("x").Lock(ctx)) }),
	"Lock of a nested one":  on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("a/b/c").Lock(ctx)) }),
	"TryLock":               on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("y").TryLock(ctx)) }),
	"TryLock of a held one": on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("x").TryLock(ctx)) }),
	"Lock, barging": on(func(ctx context.Context, c *lock.Client) error {
		return second(c.Mutex("y", lock.WithBarging()).Lock(ctx))
	}),
	"Do":                      on(func(ctx context.Context, c *lock.Client) error { return c.Mutex("y").Do(ctx, unreachable) }),
	"TryDo":                   on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("y").TryDo(ctx, unreachable)) }),
	"Mutex.Enqueue":           on(func(ctx context.Context, c *lock.Client) error { return second(c.Mutex("y").Enqueue(ctx)) }),
	"RWMutex.Lock":            on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").Lock(ctx)) }),
	"RWMutex.TryLock":         on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").TryLock(ctx)) }),
	"RWMutex.Do":              on(func(ctx context.Context, c *lock.Client) error { return c.RWMutex("y").Do(ctx, unreachable) }),
	"RWMutex.Enqueue":         on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").Enqueue(ctx)) }),
	"RLock":                   on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").RLock(ctx)) }),
	"TryRLock":                on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").TryRLock(ctx)) }),
	"RDo":                     on(func(ctx context.Context, c *lock.Client) error { return c.RWMutex("y").RDo(ctx, unreachable) }),
	"REnqueue":                on(func(ctx context.Context, c *lock.Client) error { return second(c.RWMutex("y").REnqueue(ctx)) }),
	"Acquire":                 on(func(ctx context.Context, c *lock.Client) error { return second(c.Semaphore("y", 3).Acquire(ctx, 2)) }),
	"TryAcquire":              on(func(ctx context.Context, c *lock.Client) error { return second(c.Semaphore("y", 3).TryAcquire(ctx, 2)) }),
	"Semaphore.Do":            on(func(ctx context.Context, c *lock.Client) error { return c.Semaphore("y", 3).Do(ctx, 2, unreachable) }),
	"Semaphore.Enqueue":       on(func(ctx context.Context, c *lock.Client) error { return second(c.Semaphore("y", 3).Enqueue(ctx, 2)) }),
	"Resize":                  on(func(ctx context.Context, c *lock.Client) error { return c.Semaphore("y", 3).Resize(ctx, 4) }),
	"LockAll":                 on(func(ctx context.Context, c *lock.Client) error { return second(c.LockAll(ctx, "y", "z")) }),
	"LockAll with a held one": on(func(ctx context.Context, c *lock.Client) error { return second(c.LockAll(ctx, "x", "z")) }),
	"Campaign":                on(func(ctx context.Context, c *lock.Client) error { return second(c.Election("y").Campaign(ctx, "me")) }),
	"Leader":                  on(func(ctx context.Context, c *lock.Client) error { return second(c.Election("y").Leader(ctx)) }),
	"Candidates":              on(func(ctx context.Context, c *lock.Client) error { return second(c.Election("y").Candidates(ctx)) }),
	"Revoke":                  on(func(ctx context.Context, c *lock.Client) error { return c.Revoke(ctx, "x", "test") }),
	"Inspect":                 on(func(ctx context.Context, c *lock.Client) error { return second(admin.New(c).Inspect(ctx, "x")) }),
	"Now":                     on(func(ctx context.Context, c *lock.Client) error { return second(admin.New(c).Now(ctx)) }),
	"Extend": func(ctx context.Context, _ *lock.Client, h *lock.Hold, _ lock.Ticket) error {
		return h.Extend(ctx, ttl/2)
	},
	"Txn": func(ctx context.Context, _ *lock.Client, h *lock.Hold, _ lock.Ticket) error {
		return h.Txn(ctx, lock.OpCreate("/data", nil, 0, zk.WorldACL(zk.PermAll)))
	},
	"Detach": func(ctx context.Context, _ *lock.Client, h *lock.Hold, _ lock.Ticket) error {
		return second(h.Detach(ctx, ttl))
	},
	"Attach": func(ctx context.Context, c *lock.Client, _ *lock.Hold, ticket lock.Ticket) error {
		return second(c.Attach(ctx, ticket))
	},
	"Break": func(ctx context.Context, c *lock.Client, h *lock.Hold, _ lock.Ticket) error {
		return second(admin.New(c).Break(ctx, h.EntryPath(), znode.Broken{Owner: "test"}))
	},
	"Observe": func(ctx context.Context, c *lock.Client, _ *lock.Hold, _ lock.Ticket) (err error) {
		for _, why := range c.Election("y").Observe(ctx) {
			err = why
		}
		return err
	},
}

// on is a call that needs nothing but a client.
func on(call func(context.Context, *lock.Client) error) func(context.Context, *lock.Client, *lock.Hold, lock.Ticket) error {
	return func(ctx context.Context, c *lock.Client, _ *lock.Hold, _ lock.Ticket) error { return call(ctx, c) }
}

func unreachable(context.Context) error { panic("called without the lock") }
