package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// lagging tells which requests of a client reach a server that lags behind: where
// sessions are local (localSessionsEnabled) one that begins anew may. It has caught
// up once it has been asked to, or has answered a write; for a moment it takes none,
// so that the first word is a read's.
func lagging(label string, c *lock.Client) func(locktest.Request) bool {
	first := c.Session()
	last, caughtUp := first, first
	var since time.Time
	return func(r locktest.Request) bool {
		if r.Label != label {
			return false
		}
		if last != r.Session {
			last, since = r.Session, time.Now()
		}
		if r.Op == "sync" || mutates(r, label) && time.Since(since) > 300*time.Millisecond {
			caughtUp = r.Session
		}
		return r.Session != first && r.Session != caughtUp
	}
}

// TestPredecessorThatOnlyALaggingServerShows: the waiter's predecessor, by the parent's tail, left
// before it joined; but a server that lags behind shows it still. That it goes then
// does not make it the waiter's turn.
func TestPredecessorThatOnlyALaggingServerShows(t *testing.T) {
	t.Run("the session ends during the read", func(t *testing.T) { testLaggingPredecessor(t, false) })
	t.Run("the session ends before the read", func(t *testing.T) { testLaggingPredecessor(t, true) })
}

func testLaggingPredecessor(t *testing.T, endsBefore bool) {
	simulate(t, locktest.Options{}, func(w *world) {
		var ends atomic.Bool
		begun := time.Now()
		var b *lock.Client
		b = w.dial("b", lock.WithClock(func() (mono, wall time.Duration) {
			if calledBy("(*Entry).Fresh") && ends.Swap(false) { // it has joined, and has not looked yet
				first := b.Session()
				w.ExpireLabel("b")
				for b.Session() == first {
					time.Sleep(10 * time.Millisecond)
				}
			}
			return time.Since(begun), time.Duration(time.Now().UnixNano())
		}))
		a, c, z := w.dial("a"), w.dial("c"), w.raw("other")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		ctx, cancel := context.WithCancel(w.ctx)
		gone := w.queue(ctx, c, "x")
		old := w.entries("x")[1]
		record := w.record(old.Path)
		record.ExpiresAt -= time.Hour.Milliseconds()
		cancel()
		<-gone
		w.until("the second one has left", func() bool { return len(w.entries("x")) == 1 })

		// What the lagging server shows is put there, stamped with its time, for as
		// long as the server lags.
		lagsBehind := lagging("b", b)
		var shown atomic.Bool
		hide := func() {
			if shown.Load() && len(w.Dump(old.Path)) > 0 {
				w.remove(z, old.Path)
			}
		}
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			switch {
			case r.Label != "b" || !touches(r, "/locks/x"):
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case !lags:
				hide()
				if !shown.Load() && r.Op == "getData" && touches(r, old.Path) {
					w.ExpireLabel("b")
					return locktest.Fault{Drop: locktest.BeforeApply}
				}
			case !shown.Load() && r.Op == "getData" && touches(r, old.Path):
				shown.Store(true)
				w.StepClock(-time.Hour)
				_, err := z.Create(old.Path, record.Encode(), 0, zk.WorldACL(zk.PermAll))
				w.StepClock(time.Hour)
				if err != nil {
					w.Error(err)
				}
			}
			return locktest.Fault{}
		})
		ends.Store(endsBefore)
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		time.Sleep(ttl)
		if !shown.Load() {
			w.Error("nobody has asked the lagging server")
		}
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestPurgePastOneThatALaggingServerHides: as the dead waiter ahead is purged, the
// session changes. The new server lags behind even the creation of the entry before
// that one, which holds the lock by then. What it does not show yet has not gone.
func TestPurgePastOneThatALaggingServerHides(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		first, holder, b := w.dial("first"), w.dial("holder"), w.dial("b")
		leaving := w.lock(first, "x")
		next := w.queue(w.ctx, holder, "x")
		w.queue(w.ctx, w.dial("dead"), "x")
		ch := w.queue(w.ctx, b, "x")
		entries := paths(w.entries("x"))
		own, version := entries[3], int32(0)
		w.kill("dead")
		expired := time.Now().Add(ttl)

		// As it looks at the one that will hold, the lagging server hides it; and what
		// it is asked next it answers once the waiter's own entry was written.
		lagsBehind, hidden := lagging("b", b), false
		var begun atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			switch {
			case r.Label != "b":
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case lags && r.Op == "getChildren2":
				return locktest.Fault{Code: codeNoNode}
			case r.Op != "getData":
			case !begun.Load() && time.Now().After(expired) && touches(r, entries[1]):
				begun.Store(true)
				version = w.node(own).Stat.Version
				w.unlock(leaving)
				w.ExpireLabel("b")
				return locktest.Fault{Drop: locktest.BeforeApply}
			case lags && touches(r, entries[1]):
				hidden = true
				return locktest.Fault{Code: codeNoNode}
			case hidden && touches(r, entries[0]) && w.node(own).Stat.Version == version:
				return locktest.Fault{Code: codeThrottled}
			}
			return locktest.Fault{}
		})
		holds := w.await(next).hold
		w.until("the session changes", begun.Load)
		time.Sleep(ttl)
		w.waits(ch)
		w.alive(holds)
		w.unlock(holds)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}
