// Servers that take smaller transactions than usual.

package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// takesLess has the servers cut the connection of a client that sends a transaction of 20 kB, as
// those with a small jute.maxbuffer do. It counts these.
func (w *world) takesLess() *atomic.Int32 {
	var cuts atomic.Int32
	w.Intercept(func(r locktest.Request) locktest.Fault {
		bytes := 0
		for _, p := range r.Paths {
			bytes += len(p) + 17 // of an operation's header, and a version
		}
		if r.Op == "multi" && bytes > 20<<10 {
			cuts.Add(1)
			return locktest.Fault{Drop: locktest.BeforeApply}
		}
		return locktest.Fault{}
	})
	return &cuts
}

// TestServersThatTakeLess: many entries of a long name leave at once, because their waiters give
// up, the client closes, or it has died and others purge them. The next waiter has its turn.
func TestServersThatTakeLess(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]func(w *world, a *lock.Client, giveUp func()){
		"give up": func(w *world, a *lock.Client, giveUp func()) { giveUp() },
		"close":   func(w *world, a *lock.Client, giveUp func()) { mustBe(w, a.Close(), nil) },
		"die": func(w *world, a *lock.Client, giveUp func()) {
			w.kill("a")
			time.Sleep(2 * ttl)
		},
	}, func(w *world, leave func(w *world, a *lock.Client, giveUp func())) {
		long := strings.Repeat("x", 400)
		a, b := w.dial("a", riding(0)), w.dial("b", riding(0))
		h := w.lock(b, long)
		ctx, giveUp := context.WithCancel(w.ctx)
		defer giveUp()
		for i := range 100 {
			start(func() (*lock.Hold, error) {
				return a.Mutex(long, lock.WithMetadata(map[string]string{"job": fmt.Sprint(i)})).Lock(ctx)
			})
		}
		w.until("all have joined", func() bool { return len(w.entries(long)) == 101 })
		last := w.queue(w.ctx, w.dial("c", riding(0)), long)
		cuts := w.takesLess()
		leave(w, a, giveUp)
		w.unlock(h)
		begun := time.Now()
		got := w.await(last)
		if took := got.at.Sub(begun); took > ttl || cuts.Load() > 5 {
			t.Errorf("the next waiter has its turn after %v, and %d connections were cut", took, cuts.Load())
		}
		w.unlock(got.hold)
		giveUp()
		w.Heal("a")
		w.empty()
	})
}
