package lock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestLoweredMaxTTL: a policy of this moment says nothing about the leases that others
// have been given. Who waits with a shorter max_ttl leaves a holder its longer lease,
// stopped or not, and a dead one is purged after that and the own grace.
func TestLoweredMaxTTL(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const short = lock.MinTTL
		lowered := lock.WithPolicies(policies{TTL: short, MaxTTL: short, Grace: lock.MinGrace})
		a, b := w.dial("a"), w.dial("b", lowered)
		h := w.lock(a, "x")
		ended := w.end(h)
		ch := w.queue(w.ctx, b, "x")
		tries := func() {
			if _, err := b.Mutex("x").TryLock(w.ctx); !errors.Is(err, lock.ErrHeld) {
				w.Errorf("got what is held: %v", err)
			}
		}
		w.Freeze("a") // it renews nothing, and its lease runs
		time.Sleep(ttl / 2)
		tries()
		w.waits(ch)
		w.Thaw("a")
		time.Sleep(2 * ttl)
		tries()
		w.waits(ch)
		w.alive(h)
		d := w.die("a", h.EntryPath())
		got := w.await(ch)
		w.inTurn(ended, got)
		if late := got.at.Sub(time.UnixMilli(d.end)) - lock.MinGrace; late <= 0 || late > 20*time.Millisecond {
			w.Errorf("purged %v after the end of its TTL and the waiter's grace", late)
		}
		w.unlock(got.hold)
		w.Heal("a")
		w.empty()
	})
}
