package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestUnlockTimeoutHoldsInPlace: the server answers no more, not even over a new
// connection. The request that is waited for in the caller's goroutine must not make
// Unlock take longer than it may, whatever session timeout the server grants.
func TestUnlockTimeoutHoldsInPlace(t *testing.T) {
	const session = 6 * time.Second
	for _, at := range []struct{ limit, granted time.Duration }{
		{session / 2, session}, {session, session}, {2 * session, session}, {5 * session, session}, {session, 3 * session},
	} {
		limit := at.limit
		simulate(t, locktest.Options{MinSessionTimeout: at.granted}, func(w *world) {
			a := w.dial("a", lock.WithSessionTimeout(session), lock.WithUnlockTimeout(limit), lock.WithPolicies(policies{TTL: 10 * limit, Grace: grace}))
			h := w.lock(a, "x")
			w.Intercept(func(r locktest.Request) locktest.Fault {
				if r.Label == "a" && (r.Op == "multi" || r.Op == "delete") {
					return locktest.Fault{Delay: time.Hour}
				}
				return locktest.Fault{}
			})
			start := time.Now()
			err := h.Unlock()
			var unlock *lock.UnlockError
			if took := time.Since(start); !errors.As(err, &unlock) || took > limit+time.Second {
				t.Errorf("Unlock took %v of %v and returned %v", took, limit, err)
			}
			w.Intercept(nil)
			time.Sleep(at.granted) // the connection fails; over the next one the node is deleted
		})
	}
}

// TestCloseEndsLockThatCannotEnd: its context has no end, its reply does not come.
func TestCloseEndsLockThatCannotEnd(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, err := lock.Dial(w.ctx, w.Servers(), w.options("a", lock.WithUnlockTimeout(2*time.Second))...)
		if err != nil {
			t.Fatal(err)
		}
		w.unlock(w.lock(a, "x"))
		hit := w.fault(joins, locktest.Fault{DelayReply: time.Hour})
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(context.Background()) })
		w.until("the join is under way", hit)
		begin := time.Now()
		if err := a.Close(); err == nil {
			t.Error("closed without a word, with a request under way")
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("Close took %v", took)
		}
		got := w.outcome(ch)
		mustBe(t, got.err, lock.ErrClosed)
	})
}

// TestLockThatCannotEndFindsItsEntry: as TestAmbiguousLock, without a context that
// could end the wait.
func TestLockThatCannotEndFindsItsEntry(t *testing.T) {
	for _, drop := range []locktest.Drop{locktest.BeforeApply, locktest.AfterApply} {
		simulate(t, locktest.Options{}, func(w *world) {
			a := w.dial("a")
			w.unlock(w.lock(a, "x"))
			hit := w.fault(joins, locktest.Fault{Drop: drop})
			began := time.Now()
			h, err := a.Mutex("x").Lock(context.Background())
			if took := time.Since(began); err != nil || !hit() || took >= ttl { // then it has waited for an entry of its own
				t.Fatal(err, hit(), took)
			}
			w.sole(h)
			w.unlock(h)
			w.empty()
		})
	}
}
