package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// semaphore is that of a client, said to have so many permits.
func (w *world) semaphore(label string, n int) *lock.Semaphore {
	w.Helper()
	return w.dial(label).Semaphore("x", n)
}

// resize starts a change of the number of permits.
func (w *world) resize(s *lock.Semaphore, n int) <-chan taken {
	return start(func() (*lock.Hold, error) { return nil, s.Resize(w.ctx, n) })
}

// TestGuardJoinAfterALowering: a client that knows the number of permits from before joins
// after they were made fewer.
func TestGuardJoinAfterALowering(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.semaphore("a", 2), w.semaphore("b", 2)
		h := w.take(permits(b, 1))
		for range 2 {
			w.unlock(w.take(permits(a, 1))) // knows of two, and remembers that for a second
		}
		if err := b.Resize(w.ctx, 1); err != nil {
			t.Fatal(err)
		}
		w.unlock(h)
		ch := start(func() (*lock.Hold, error) { return a.Acquire(w.ctx, 2) })
		time.Sleep(100 * time.Millisecond)
		w.waits(ch)
		if err := b.Resize(w.ctx, 2); err != nil {
			t.Fatal(err)
		}
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestGuardCapacityAfterAPurge: the number of permits was made less while a waiter waits behind
// holders that have died.
func TestGuardCapacityAfterAPurge(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.semaphore("a", 3), w.semaphore("b", 3), w.semaphore("c", 3)
		dead := w.take(permits(a, 1))
		second, third := w.take(permits(b, 1)), w.take(permits(b, 1))
		resized := w.resize(b, 2)
		settle()
		ch := w.join("x", permits(c, 1))
		w.unlock(third)
		if got := w.resized(resized); got.err != nil {
			t.Fatal(got.err)
		}
		w.waits(ch)
		w.die("a", dead.EntryPath())
		next := w.await(ch)
		if n := w.anchor("x").Capacity(); n != 2 {
			t.Errorf("%d permits, want 2", n)
		}
		last := start(func() (*lock.Hold, error) { return b.Acquire(w.ctx, 1) })
		time.Sleep(time.Second)
		w.waits(last)
		w.unlock(second)
		w.unlock(w.await(last).hold)
		w.unlock(next.hold)
		w.Heal("a")
		w.empty()
	})
}

// resized waits for an outcome that has no hold.
func (w *world) resized(ch <-chan taken) taken {
	w.Helper()
	return <-ch
}

// TestGuardCapacityAfterAHolder: an entry ahead leaves with the permit that it had waited for,
// in one transaction, after the first waiter has read the number of permits.
func TestGuardCapacityAfterAHolder(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c, z := w.semaphore("a", 2), w.semaphore("b", 2), w.semaphore("c", 2), w.raw("other")
		first, second := w.take(permits(a, 1)), w.take(permits(b, 1))
		anchor := "/locks/x/" + znode.Anchor(w.parent("x").Generation)
		time.Sleep(10 * time.Millisecond) // the grants are recorded
		var crowd atomic.Bool             // it reads the holders one by one
		hit := w.before(func(r locktest.Request) bool {
			if r.Label == "c" && r.Op == "getData" && touches(r, first.EntryPath()) {
				crowd.Store(true)
			}
			return crowd.Load() && r.Label == "c" && r.Op == "getData" && touches(r, second.EntryPath())
		}, func() {
			_, err := z.Multi(
				&zk.SetDataRequest{Path: anchor, Data: znode.AnchorData{Permits: 2, Resized: 1}.Encode(), Version: -1},
				&zk.DeleteRequest{Path: second.EntryPath(), Version: -1})
			if err != nil {
				t.Error(err)
			}
		})
		ch := start(func() (*lock.Hold, error) { return c.Acquire(w.ctx, 1) })
		w.until("it looks", hit)
		time.Sleep(time.Second)
		w.waits(ch)
		w.alive(first)
		w.unlock(first)
		w.unlock(w.await(ch).hold)
	})
}

// TestGuardRaiseWithoutWatch: the first waiter notices that there are more permits although its
// watches are lost.
func TestGuardRaiseWithoutWatch(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.semaphore("a", 1), w.semaphore("b", 1), w.semaphore("c", 1)
		h := w.take(permits(a, 1))
		ch := w.join("x", permits(b, 1))
		time.Sleep(100 * time.Millisecond)
		w.LoseWatches("b")
		if err := c.Resize(w.ctx, 2); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		got := w.await(ch)
		if took := got.at.Sub(begun); took > 3*time.Minute {
			t.Errorf("it noticed after %v", took)
		}
		w.unlock(h)
		w.unlock(got.hold)
		w.empty()
	})
}

// TestGuardRaise: the first waiter is in when there are more permits, be the holders few or many.
func TestGuardRaise(t *testing.T) {
	for _, n := range []int{1, 20} {
		simulate(t, locktest.Options{}, func(w *world) {
			a, b, c := w.semaphore("a", n), w.semaphore("b", n), w.semaphore("c", n)
			var holds []*lock.Hold
			for range n {
				holds = append(holds, w.take(permits(a, 1)))
			}
			ch := w.join("x", permits(b, 1))
			time.Sleep(100 * time.Millisecond)
			if err := c.Resize(w.ctx, n+1); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			got := w.await(ch)
			if took := got.at.Sub(begun); took > time.Second {
				t.Errorf("behind %d holders it noticed after %v", n, took)
			}
			for _, h := range append(holds, got.hold) {
				w.unlock(h)
			}
			w.empty()
		})
	}
}

// TestGuardPermitsFree: each of several waiters is in as soon as there is a permit, though the
// one before it is in already and stays, and whichever holder leaves.
func TestGuardPermitsFree(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.semaphore("a", 3), w.semaphore("b", 3), w.semaphore("c", 3)
		first, second, third := w.take(permits(a, 1)), w.take(permits(a, 1)), w.take(permits(a, 1))
		one, two := w.join("x", permits(b, 1)), w.join("x", permits(c, 1))
		w.unlock(first)
		h := w.await(one).hold
		w.waits(two)
		time.Sleep(100 * time.Millisecond)
		w.unlock(third)
		begun := time.Now()
		got := w.await(two)
		if took := got.at.Sub(begun); took > time.Second {
			t.Errorf("it noticed after %v", took)
		}
		for _, h := range []*lock.Hold{second, h, got.hold} {
			w.unlock(h)
		}
		w.empty()
	})
}

// TestGuardPermitsBehindForeign: a waiter stands behind another library's entry, which tells no
// grant, and has a permit as soon as one is free.
func TestGuardPermitsBehindForeign(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.semaphore("a", 3), w.semaphore("b", 3), w.raw("other")
		first, second, third := w.take(permits(a, 1)), w.take(permits(a, 1)), w.take(permits(a, 1))
		theirs := w.create(z, "/locks/x/_c_9f86d081-884c-7d65-9f86-d081884c7d65-lock-", "", zk.FlagSequence)
		ch := w.join("x", permits(b, 1))
		w.unlock(first)
		w.waits(ch)
		time.Sleep(100 * time.Millisecond)
		w.unlock(third)
		begun := time.Now()
		got := w.await(ch)
		if took := got.at.Sub(begun); took > time.Second {
			t.Errorf("it noticed after %v", took)
		}
		w.unlock(second)
		w.unlock(got.hold)
		w.remove(z, theirs)
		w.empty()
	})
}

// TestGuardLoweringLosesItsEntry: the entry that has waited for the permits is removed as these
// are taken away, and another client has them.
func TestGuardLoweringLosesItsEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c, z := w.semaphore("a", 2), w.semaphore("b", 2), w.semaphore("c", 2), w.raw("other")
		first := w.take(permits(a, 1))
		var second <-chan taken
		hit := w.before(func(r locktest.Request) bool {
			return mutates(r, "b") && r.Op == "multi" && len(r.Paths) == 2 && touches(r, "/anchor-")
		}, func() {
			w.remove(z, w.entries("x")[1].Path)
			second = start(func() (*lock.Hold, error) { return c.Acquire(w.ctx, 1) })
			time.Sleep(time.Second)
		})
		resized := w.resize(b, 1)
		w.until("it takes a permit away", hit)
		time.Sleep(2 * time.Second)
		h := w.await(second).hold
		if n := w.anchor("x").Capacity(); n < 2 {
			t.Errorf("two are held, and there are %d", n)
		}
		w.unlock(first)
		w.unlock(h)
		if got := w.resized(resized); got.err != nil {
			t.Error(got.err)
		}
		w.empty()
	})
}

// TestGuardHiddenHolderOfPermits: what a client may not read holds its permits all the same.
func TestGuardHiddenHolderOfPermits(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.semaphore("a", 2), w.semaphore("b", 2), w.raw("other")
		first, second := w.take(permits(a, 1)), w.take(permits(a, 1))
		for _, h := range []*lock.Hold{first, second} {
			if _, err := z.SetACL(h.EntryPath(), zk.WorldACL(zk.PermWrite), -1); err != nil {
				t.Fatal(err)
			}
		}
		ch := w.join("x", permits(b, 1))
		time.Sleep(3 * ttl)
		w.waits(ch)
		w.unlock(second)
		h := w.await(ch).hold
		w.unlock(first)
		w.unlock(h)
		w.empty()
	})
}

// TestGuardSuperiorThatCrashes: candidates of a higher priority come and die, one after the
// other. A living one leads in the end.
func TestGuardSuperiorThatCrashes(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.expect(w.campaign(w.ctx, a, "first")).hold
		ch := w.campaign(w.ctx, b, "steady")
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				label := string(rune('A' + i))
				c := w.dial(label)
				ctx, cancel := context.WithCancel(w.ctx)
				go c.Election("x", lock.WithPriority(5)).Campaign(ctx, label)
				time.Sleep(time.Second)
				w.kill(label)
				cancel()
				select {
				case <-stop:
					return
				case <-time.After(ttl / 2):
				}
			}
		}()
		time.Sleep(2 * time.Second)
		w.unlock(h)
		begun := time.Now()
		select {
		case got := <-ch:
			if got.err != nil {
				t.Error(got.err)
			} else {
				w.unlock(got.hold)
			}
		case <-time.After(5 * time.Minute):
			t.Errorf("none leads for %v", time.Since(begun))
		}
		close(stop)
		<-stopped
	})
}
