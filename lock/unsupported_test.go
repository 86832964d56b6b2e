// Servers without transactions.

package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestServerWithoutTransactions: a server that does not know them, as ZooKeeper 3.3, or
// tells nothing of their results is refused by Dial, which says why; and by the first call
// of a client that went on.
func TestServerWithoutTransactions(t *testing.T) {
	for says, fault := range map[string]locktest.Fault{
		"unknown error: -6": {Code: codeUnimplemented},
		"must be ZooKeeper": {NoResults: true},
	} {
		subtest(t, fmt.Sprint("says ", says), locktest.Options{}, func(w *world) {
			w.Intercept(func(r locktest.Request) locktest.Fault {
				if r.Op == "multi" {
					return fault
				}
				return locktest.Fault{}
			})
			began := time.Now()
			_, err := lock.Dial(w.ctx, w.Servers(), w.options("a")...)
			mustBe(w, err, lock.ErrUnsupported)
			mustSay(w, err, says, "server is not supported")
			a := w.dial("a", lock.WithUnsafeServer())
			for range 2 {
				_, err := a.Mutex("x").Lock(w.ctx)
				mustBe(w, err, lock.ErrUnsupported)
				mustSay(w, err, says, "server is not supported")
				_, err = a.Mutex("y").TryLock(w.ctx)
				mustBe(w, err, lock.ErrUnsupported)
			}
			atMost(w, "it took", time.Since(began), time.Second)
		})
	}
}

// TestResultsMissingOnce: of a server that has given results before, a reply without any
// is one that was lost.
func TestResultsMissingOnce(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.unlock(w.lock(a, "x"))
		missing := 0
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Op == "multi" && missing == 0 {
				missing++
				return locktest.Fault{NoResults: true}
			}
			return locktest.Fault{}
		})
		h, err := a.Mutex("x").Lock(w.ctx)
		if err != nil || missing != 1 {
			t.Fatalf("Lock = %v after %d replies without results", err, missing)
		}
		w.unlock(h)
		w.empty()
	})
}
