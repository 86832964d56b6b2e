// Any one of several locks: turns, second grants, reentry, lost replies, outages, denials.

package lock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// queueAny starts a waiter for any one of the locks, and returns when the waiter is in all queues.
func (w *world) queueAny(ctx context.Context, c *lock.Client, names ...string) <-chan taken {
	w.Helper()
	return joined(w, func() (*lock.Hold, error) { return c.Any(names).Lock(ctx) }, names...)
}

// isOf checks that h is valid and is a hold of the named lock, and returns h.
func (w *world) isOf(h *lock.Hold, name string) *lock.Hold {
	w.Helper()
	equal(w, "name of the hold", h.Name(), name)
	w.alive(h)
	return h
}

// TestAnyTakesTheFirstFreeOne: the order of the names is the order of preference. To lock a free
// lock takes one transaction, and no other lock gets an entry.
func TestAnyTakesTheFirstFreeOne(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.unlock(w.lock(a, "other")) // creates the root, and learns the time
		for _, take := range []taking{a.Any([]string{"x", "y", "z"}).Lock, a.Any([]string{"x", "y", "z"}).TryLock} {
			time.Sleep(2 * time.Second) // until the parents are deleted
			var h *lock.Hold
			got := w.cost("a", func() { h = w.take(take) })
			w.isOf(h, "x")
			isTrue(t, got.txns == 1 && got.requests["multi"] == 1, "a free lock cost %v and %d transactions", got.requests, got.txns)
			w.hasEntries("y", 0)
			y := w.isOf(w.take(b.Any([]string{"x", "y", "z"}).TryLock), "y")
			z := w.isOf(w.take(take), "z")
			fails(t, second(a.Any([]string{"y", "x", "z"}).TryLock(w.ctx)), lock.ErrHeld, `lock "y"`, "contender: b (")
			for _, name := range []string{"x", "y", "z"} {
				w.hasEntries(name, 1)
			}
			w.finish(h, y, z)
		}
		w.nothingLost(a, b)
	})
}

// TestAnyInTurn: a waiter for any of several locks is in each queue, first come, first served. When
// it gets one of the locks, it leaves the other queues.
func TestAnyInTurn(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c, d, e := w.client("a"), w.client("b"), w.client("c"), w.client("d"), w.client("e")
		h := w.lockAll(c, "x", "y", "z")
		first := w.queueAny(w.ctx, a, "x", "y")
		onX, onY := w.queue(w.ctx, b, "x"), w.queue(w.ctx, b, "y")
		second := w.queueAny(w.ctx, d, "z", "y", "x")
		third := w.queueAny(w.ctx, e, "x", "z")
		time.Sleep(4 * ttl) // the entries are renewed
		w.waits(first, onX, onY, second, third)

		w.unlock(h.Hold("y"))
		got := w.isOf(w.expect(first).hold, "y")
		w.hasEntries("x", 4) // of the holder, and of b, d and e
		w.waits(onX, onY, second, third)
		w.unlock(h.Hold("x"))
		x := w.expect(onX).hold
		w.waits(onY, second, third)
		w.unlock(got)
		y := w.expect(onY).hold
		w.unlock(h.Hold("z"))
		z := w.isOf(w.expect(second).hold, "z")
		w.waits(third)
		w.unlock(y)
		w.waits(third)
		w.unlock(x)
		w.finish(w.isOf(w.expect(third).hold, "x"), z)
		w.nothingLost(a, b, c, d, e)
	})
}

// TestAnyReleasesASecondGrant: if two locks are handed off locally in the same moment, a waiter for
// either keeps one. Another client, which waits for the second lock or joins later, gets that lock.
func TestAnyReleasesASecondGrant(t *testing.T) {
	each(t, "another client waits", bools, func(w *world, next bool) {
		seen := new(observed)
		a := w.client("a", lock.WithObserver(seen))
		b := w.client("b")
		seconds := 0
		for range 50 {
			held := []*lock.Hold{w.lock(a, "x"), w.lock(a, "y")}
			ch := start(func() (*lock.Hold, error) { return a.Any([]string{"x", "y"}).Lock(w.ctx) })
			w.until("the waiter waits for both", func() bool { return a.Stats().Waiters == 2 })
			behind := map[string]<-chan taken{}
			if next {
				behind["x"], behind["y"] = w.queue(w.ctx, b, "x"), w.queue(w.ctx, b, "y")
			}
			settle()
			seen.take()
			w.unlock(held...) // hands both off locally before a waiter runs
			got := w.expect(ch).hold
			other := map[string]string{"x": "y", "y": "x"}[got.Name()]
			events, _ := seen.take()
			for _, e := range events {
				if e.Kind == lock.EventAcquired && e.Lock == other {
					seconds++
				}
			}
			w.alive(got)
			equal(w, "holds", a.Stats().Holds, 1)
			if !next {
				behind[other] = start(func() (*lock.Hold, error) { return b.Mutex(other).Lock(w.ctx) })
			}
			w.unlock(w.expect(behind[other]).hold, got)
			if next {
				w.unlock(w.expect(behind[got.Name()]).hold)
			}
		}
		isTrue(w, seconds > 0, "no lock was granted beside another one")
		w.nothingLost(a, b)
	})
}

// TestAnyIsReentrant: Any.Lock with the context of a hold reenters the hold's lock, although another
// lock is free.
func TestAnyIsReentrant(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.client("a")
		h := w.lock(c, "y")
		again := w.takeIn(h.Context(), c.Any([]string{"x", "y"}).Lock)
		equal(t, "token", again.Token(), h.Token())
		other := w.isOf(w.take(c.Any([]string{"y", "x"}).TryLock), "x") // without the context
		w.unlock(h)
		w.alive(again)
		w.unlock(again)
		mustBe(t, second(c.Any([]string{"x", "y"}).Lock(h.Context())), lock.ErrUnlocked)
		w.isOf(w.takeIn(context.WithoutCancel(h.Context()), c.Any([]string{"x", "y"}).Lock), "y").Unlock()
		w.finish(other)
	})
}

// TestAnyEndsEarly: if the waiter's context ends or its client closes, Any.Lock returns the cause,
// and no entry and no hold is left.
func TestAnyEndsEarly(t *testing.T) {
	const canceled, closed, cutOff = "canceled", "closed", "cut off"
	wants := map[string][]error{
		canceled: {context.Canceled, errGaveUp, lock.ErrHeld}, closed: {lock.ErrClosed}, cutOff: {context.Canceled, errGaveUp},
	}
	each(t, "waiter", []string{canceled, closed, cutOff}, func(w *world, how string) {
		a, b := w.client("a"), w.client("b")
		h := w.lockAll(b, "x", "y", "z")
		ctx, cancel := context.WithCancelCause(w.ctx)
		defer cancel(nil)
		ch := w.queueAny(ctx, a, "x", "y", "z")
		switch how {
		case canceled:
			cancel(errGaveUp)
		case closed:
			w.close(a)
		case cutOff:
			w.kill("a")
			time.Sleep(time.Second)
			cancel(errGaveUp)
			settle()
			w.Heal("a")
		}
		mustBe(w, (<-ch).err, wants[how]...)
		time.Sleep(ttl / 2)
		for _, name := range []string{"x", "z"} {
			w.hasEntries(name, 1)
		}
		isTrue(w, a.Stats().Holds == 0 && a.Stats().Waiters == 0, "stats %+v", a.Stats())
		w.unlockAll(h)
		w.empty()
	})
}

// TestAmbiguousAny: if the reply to a join or to the unlock of a second granted lock is lost, the
// call returns one hold with one entry. Afterwards no node is left.
func TestAmbiguousAny(t *testing.T) {
	eachMishap(t, "unlock", bools, func(w *world, unlock bool, i int) {
		a, b := w.client("a"), w.client("b")
		h := w.lockAll(b, "x", "y", "z")
		var ch <-chan taken
		var hit func() bool
		if unlock {
			ch = w.queueAny(w.ctx, a, "x", "y", "z")
			hit = w.mishap(i, "a", func(r locktest.Request) bool { return (r.Op == "multi" || r.Op == "delete") && touches(r, "-lock-") })
			w.unlockAll(h)
		} else {
			hit = w.mishap(i, "a", joins)
			ch = start(func() (*lock.Hold, error) { return a.Any([]string{"x", "y", "z"}).Lock(w.ctx) })
		}
		w.until("the mishap", hit)
		time.Sleep(ttl)
		if !unlock {
			w.waits(ch)
			w.unlock(h.Hold("y"))
		}
		got := w.await(ch)
		w.sole(got.hold)
		w.unlock(got.hold)
		if !unlock {
			w.unlock(h.Hold("x"), h.Hold("z"))
		}
		w.empty()
	})
}

// TestAnyOutlivesItsSession: if the client's session expires, a waiter for any of several locks
// keeps its places, and a hold stays valid.
func TestAnyOutlivesItsSession(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lockAll(b, "x", "y")
		ch := w.queueAny(w.ctx, a, "x", "y")
		before := [2]string{w.entries("x")[1].Path, w.entries("y")[1].Path}
		w.ExpireLabel("a")
		time.Sleep(2 * ttl)
		w.waits(ch)
		equal(w, "entries", [2]string{w.entries("x")[1].Path, w.entries("y")[1].Path}, before)
		w.unlock(h.Hold("y"))
		got := w.isOf(w.expect(ch).hold, "y")
		w.ExpireLabel("a")
		time.Sleep(2 * ttl)
		w.isOf(got, "y")
		w.finish(got, h.Hold("x"))
		w.nothingLost(a, b)
	})
}

// TestAnyIsDenied: if one of the locks is denied, the call returns ErrDenied with that lock's name,
// and leaves no entry at the other lock.
func TestAnyIsDenied(t *testing.T) {
	each(t, "while it joins", bools, func(w *world, joining bool) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "x")
		var y *lock.Hold
		if joining {
			y = w.lock(b, "y")
			w.Intercept(func(r locktest.Request) locktest.Fault {
				op := slices.IndexFunc(r.Paths, func(p string) bool { return strings.HasPrefix(p, "/locks/y") })
				if r.Label != "a" || !joins(r) || op < 0 {
					return locktest.Fault{}
				}
				return locktest.Fault{Code: codeNoAuth, Op: op + 1}
			})
		} else {
			w.createACL(w.raw("stranger"), "/locks/y", `{"holdfast":2,"kind":"mutex"}`, zk.WorldACL(zk.PermRead))
		}
		ch := start(func() (*lock.Hold, error) { return a.Any([]string{"x", "y"}).Lock(w.ctx) })
		got := <-ch
		fails(w, got.err, lock.ErrDenied, `lock "y"`)
		time.Sleep(time.Second)
		w.hasEntries("x", 1)
		equal(w, "waiters", a.Stats().Waiters, 0)
		if joining {
			w.unlock(y)
		} else {
			w.remove(w.raw("admin"), "/locks/y")
		}
		w.finish(h)
	})
}
