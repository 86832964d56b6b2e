package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestOldWaiterIsNotHeldUpByJoins: a waiter whose turn has come finds that out although
// many of its client are about to join.
func TestOldWaiterIsNotHeldUpByJoins(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h, err := w.dial("h").RWMutex("x").Lock(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		ctxB, cancelB := context.WithCancel(w.ctx)
		b := w.join("x", func(context.Context) (*lock.Hold, error) { return w.dial("b").RWMutex("x").Lock(ctxB) })
		old := w.join("x", a.RWMutex("x").Lock)
		// From now on each join takes its time.
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label == "a" && r.Op == "multi" {
				return locktest.Fault{Delay: 10 * time.Millisecond}
			}
			return locktest.Fault{}
		})
		ctx, cancel := context.WithCancel(w.ctx)
		var rest []<-chan taken
		const many = 200
		for range many {
			rest = append(rest, start(func() (*lock.Hold, error) { return a.RWMutex("x").Lock(ctx) }))
		}
		rest = append(rest, start(func() (*lock.Hold, error) { return a.RWMutex("x").RLock(ctx) }))
		time.Sleep(15 * time.Millisecond)
		cancelB()
		time.Sleep(time.Millisecond)
		sent := time.Now()
		w.unlock(h)
		got := w.await(old)
		took := got.at.Sub(sent)
		if took > 100*time.Millisecond {
			t.Errorf("it took %v until the lock was had", took)
		}
		cancel()
		w.unlock(got.hold)
		<-b
		for _, ch := range rest {
			<-ch
		}
		w.empty()
	})
}
