package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestDataOfOthersInOurParentStays: somebody writes data of their own into a parent that we
// made, while the lock is held. Who joins next refuses it, and does not overwrite it.
func TestDataOfOthersInOurParentStays(t *testing.T) {
	for _, data := range []string{"theirs", `{"holdfast":99,"kind":"mutex"}`} {
		t.Run(data, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a := w.dial("a")
				h := w.lock(a, "x")
				if _, err := w.raw("other").Set("/locks/x", []byte(data), -1); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(w.ctx, time.Second)
				defer cancel()
				_, err := a.Mutex("x").Lock(ctx)
				mustBe(w, err, lock.ErrForeign)
				if got := string(w.node("/locks/x").Data); got != data {
					t.Errorf("their data are now %s", got)
				}
				w.unlock(h)
			})
		})
	}
}

// TestAdoptedAfterItWasEmptied: somebody empties a parent that we made, and another client
// adopts it. The one who made it does not forget that.
func TestAdoptedAfterItWasEmptied(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		if _, err := w.raw("other").Set("/locks/x", nil, -1); err != nil {
			t.Fatal(err)
		}
		second := w.queue(w.ctx, b, "x")
		if !w.parent("x").Adopted {
			t.Fatal("not adopted")
		}
		third := w.queue(w.ctx, a, "x")
		if !w.parent("x").Adopted {
			t.Error("the parent is not marked as adopted any more")
		}
		w.unlock(h)
		w.unlock(w.expect(second).hold)
		w.unlock(w.expect(third).hold)
		time.Sleep(5 * time.Second)
		w.node("/locks/x")
	})
}
