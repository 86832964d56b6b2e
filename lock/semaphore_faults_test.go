package lock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestWaiterWritesAfterAnOutageBeforeItPurges: it waits for permits, or behind an entry of another
// library. Its session has not changed.
func TestWaiterWritesAfterAnOutageBeforeItPurges(t *testing.T) {
	testWritesBeforeItPurges(t, func(c *lock.Client) taking { return permits(c.Semaphore("x", 1), 1) }, false)
	testWritesBeforeItPurges(t, func(c *lock.Client) taking { return c.Mutex("x").Lock }, true)
}

func testWritesBeforeItPurges(t *testing.T, of func(*lock.Client) taking, foreign bool) {
	simulate(t, locktest.Options{}, func(w *world) {
		b, z := w.dial("b"), w.raw("other")
		h := w.take(of(w.dial("a")))
		ended := w.end(h)
		var theirs string
		if foreign {
			theirs = w.create(z, "/locks/x/_c_0123456789abcdef0123456789abcdef-lock-", "", zk.FlagEphemeral|zk.FlagSequence)
		}
		ch := w.join("x", of(b))
		all := w.entries("x")
		own, session := all[len(all)-1].Path, b.Session()
		w.kill("a")
		time.Sleep(ttl)
		w.refuseWrites("b", own)
		w.Cut("b")
		time.Sleep(2 * ttl)
		if n := b.Stats().Purged; n != 0 || len(w.Dump(pathOf(h))) == 0 {
			w.Errorf("purged %d before its own entry was written", n)
		}
		if b.Session() != session {
			w.Error("the session has changed")
		}
		w.Intercept(nil)
		if foreign {
			w.until("the dead one is purged", func() bool { return len(w.Dump(pathOf(h))) == 0 })
			w.remove(z, theirs)
		}
		got := w.await(ch)
		w.inTurn(ended, got)
		w.unlock(got.hold)
		w.Heal("a")
		w.empty()
	})
}

// TestUnreadableHolderCounts: a waiter purges a holder of permits, and cannot read the entry of
// another one any more. The permits of that are not free.
func TestUnreadableHolderCounts(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.take(permits(w.dial("a").Semaphore("x", 2), 1))
		dead := w.take(permits(w.dial("dead").Semaphore("x", 2), 1))
		z := w.raw("other")
		ch := w.join("x", permits(w.dial("b").Semaphore("x", 2), 2))
		w.kill("dead")
		w.before(func(r locktest.Request) bool { return r.Label == "b" && r.Op == "getChildren2" }, func() {
			if _, err := z.SetACL(pathOf(h), zk.WorldACL(zk.PermWrite|zk.PermDelete), -1); err != nil {
				w.Error(err)
			}
		})
		w.until("the dead one is purged", func() bool { return len(w.Dump(pathOf(dead))) == 0 })
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.Heal("dead")
		w.empty()
	})
}

// TestPermitsThatALaggingServerHides: as a client waits for permits, or purges a holder, its
// session changes. The new server lags behind even the entry of another holder. What it does not
// show yet has not gone.
func TestPermitsThatALaggingServerHides(t *testing.T) {
	t.Run("from a waiter", func(t *testing.T) { testHiddenPermits(t, false) })
	t.Run("from a purge", func(t *testing.T) { testHiddenPermits(t, true) })
}

func testHiddenPermits(t *testing.T, purges bool) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		first, h := w.take(permits(a.Semaphore("x", 3), 1)), w.take(permits(a.Semaphore("x", 3), 1))
		dead := first
		if purges {
			dead = w.take(permits(w.dial("dead").Semaphore("x", 3), 1))
		}
		ch := w.join("x", permits(b.Semaphore("x", 3), 2))
		all := w.entries("x")
		own, version := all[len(all)-1].Path, int32(0)

		// What the lagging server is asked next it answers once the waiter's own entry was
		// written.
		lagsBehind := lagging("b", b)
		var looks, begun, hidden atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			switch {
			case r.Label != "b":
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case r.Op == "getChildren2":
				looks.Store(true)
			case r.Op != "getData":
			case looks.Load() && touches(r, pathOf(h)) && !begun.Swap(true):
				version = w.node(own).Stat.Version
				w.ExpireLabel("b")
				return locktest.Fault{Drop: locktest.BeforeApply}
			case lags && touches(r, pathOf(h)):
				hidden.Store(true)
				return locktest.Fault{Code: codeNoNode}
			case hidden.Load() && w.node(own).Stat.Version == version:
				return locktest.Fault{Code: codeThrottled}
			}
			return locktest.Fault{}
		})
		if looks.Store(!purges); purges { // a waiter looks when the other one renews, a purge has listed
			w.kill("dead")
			w.until("the dead one is purged", func() bool { return len(w.Dump(pathOf(dead))) == 0 })
		}
		w.until("the entry is hidden", hidden.Load)
		time.Sleep(ttl)
		w.Intercept(nil)
		w.waits(ch)
		w.alive(first)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.unlock(first)
		w.Heal("dead")
		w.empty()
	})
}
