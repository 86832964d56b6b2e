// Txn and Unlock: after Unlock no transaction by that handle is applied.

package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestTxnEndsWithItsHandle: once Unlock of a handle has returned nil, no transaction by it is
// applied any more, also where its entry lives on: by another handle, by another reader, or
// because the next goroutine of the client has it.
func TestTxnEndsWithItsHandle(t *testing.T) {
	lives := map[string]func(w *world, a *lock.Client) (first *lock.Hold, others func()){
		"another handle": func(w *world, a *lock.Client) (*lock.Hold, func()) {
			h := w.lock(a, "x")
			again, err := a.Mutex("x").Lock(h.Context())
			w.ok(err)
			return h, func() { w.unlock(again) }
		},
		"another reader": func(w *world, a *lock.Client) (*lock.Hold, func()) {
			h, other := w.take(a.RWMutex("x").RLock), w.take(a.RWMutex("x").RLock)
			if h.EntryPath() != other.EntryPath() {
				w.Fatal("they have an entry each")
			}
			return h, func() { w.unlock(other) }
		},
		"handed off": func(w *world, a *lock.Client) (*lock.Hold, func()) {
			h := w.lock(a, "x")
			next := w.line(w.ctx, a, "x", 1)[0]
			return h, func() { w.unlock(w.expect(next).hold) }
		},
		"none": func(w *world, a *lock.Client) (*lock.Hold, func()) {
			return w.lock(a, "x"), func() {}
		},
	}
	faults := map[string]locktest.Fault{
		"late":       {Delay: 3 * time.Second},
		"lost reply": {DelayReply: 3 * time.Second},
		"cut before": {Delay: time.Second, Drop: locktest.BeforeApply},
		"cut after":  {Delay: time.Second, Drop: locktest.AfterApply},
	}
	for how, share := range lives {
		for what, fault := range faults {
			for _, gaveUp := range []bool{true, false} { // else it is in flight
				t.Run(how+", "+what+map[bool]string{true: ", given up", false: ", in flight"}[gaveUp], func(t *testing.T) {
					withApp(t, func(w *world) {
						a := w.dial("a", riding(0))
						h, others := share(w, a)
						first := true
						w.Intercept(func(r locktest.Request) locktest.Fault {
							if r.Label == "a" && txns(r) && first {
								first = false
								return fault
							}
							return locktest.Fault{}
						})
						ctx, cancel := context.WithCancel(w.ctx)
						defer cancel()
						done := make(chan error, 1)
						go func() { done <- h.Txn(ctx, add()) }()
						time.Sleep(time.Second / 2)
						if gaveUp {
							cancel()
							mustBe(t, <-done, lock.ErrInDoubt)
						}
						w.unlock(h)
						added := w.added()
						time.Sleep(ttl)
						if n := w.added(); n != added {
							t.Errorf("applied after Unlock returned nil: %d nodes, then %d", added, n)
						}
						if !gaveUp {
							err := <-done
							if !errors.Is(err, lock.ErrInDoubt) && (err == nil) != (added == 1) {
								t.Errorf("applied %d times, and it says %v", added, err)
							}
						}
						mustBe(t, h.Txn(w.ctx, add()), lock.ErrUnlocked)
						others()
						w.empty()
					})
				})
			}
		}
	}
}

// TestTxnThatNeverSettles: Unlock says so when its time is up.
func TestTxnThatNeverSettles(t *testing.T) {
	withApp(t, func(w *world) {
		a := w.dial("a", lock.WithUnlockTimeout(2*time.Second))
		h := w.lock(a, "x")
		again, err := a.Mutex("x").Lock(h.Context())
		w.ok(err)
		w.ok(w.Partition("a"))
		ctx := w.limited(time.Second)
		mustBe(t, h.Txn(ctx, add()), lock.ErrInDoubt)
		begun := time.Now()
		err = h.Unlock()
		equal(w, "Unlock took", time.Since(begun), 2*time.Second)
		mustBe(t, err, lock.ErrInDoubt)
		mustBe(t, h.Unlock(), lock.ErrUnlocked)
		w.Heal("a")
		w.until("the other handle is renewed", func() bool { return again.Remaining() > 0 })
		w.unlock(again)
		w.empty()
	})
}
