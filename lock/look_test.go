package lock_test

import (
	"context"
	"errors"
	"strings"
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

// TestWhoMakesASharedListGivesUp: while it waits for others to join. Those who share the
// list have another one made.
func TestWhoMakesASharedListGivesUp(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		first := w.take(a.RWMutex("x").RLock)
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label == "a" && r.Op == "multi" {
				return locktest.Fault{Delay: 10 * time.Millisecond}
			}
			return locktest.Fault{}
		})
		ctx, cancel := context.WithCancel(w.ctx)
		writers := []<-chan taken{}
		for range 50 {
			writers = append(writers, start(func() (*lock.Hold, error) { return a.RWMutex("x").Lock(ctx) }))
		}
		time.Sleep(time.Millisecond) // the writers are before it
		gaveUp, cancelLeader := context.WithCancel(w.ctx)
		leader := start(func() (*lock.Hold, error) { return a.RWMutex("x").RLock(gaveUp) })
		time.Sleep(5 * time.Millisecond)
		other := start(func() (*lock.Hold, error) { return a.RWMutex("x").RLock(w.ctx) })
		time.Sleep(40 * time.Millisecond)
		cancelLeader()
		if got := <-leader; !errors.Is(got.err, context.Canceled) {
			t.Errorf("who made the list: got %v, %v; want that it gave up", got.hold, got.err)
		}
		cancel()
		for _, ch := range writers {
			<-ch
		}
		w.unlock(first)
		if got := <-other; got.err != nil {
			t.Error(got.err)
		} else {
			w.unlock(got.hold)
		}
		w.empty()
	})
}

// TestManyWhoWantSeveralLocksShareTheirLists: of those of one client who come at once for
// several locks together, as others do, all learn their places from the same lists.
func TestManyWhoWantSeveralLocksShareTheirLists(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const many = 100
		names := []string{"x", "y", "z"}
		first := w.lockAll(w.dial("h"), names...)
		clients := []*lock.Client{w.dial("a"), w.dial("b")}
		lists := 0
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if strings.HasPrefix(r.Op, "getChildren") {
				lists++
			}
			return locktest.Fault{Delay: time.Millisecond}
		})
		ctx, cancel := context.WithCancel(w.ctx)
		var all []<-chan takenAll
		for i := range many {
			all = append(all, startAll(func() (*lock.Holds, error) { return clients[i%2].LockAll(ctx, names...) }))
		}
		time.Sleep(10 * time.Second)
		w.Intercept(nil)
		if entries := len(w.entries("z")); entries != many+1 {
			t.Errorf("%d entries, want %d", entries, many+1)
		}
		if most := 3 * len(names) * len(clients); lists > most {
			t.Errorf("%d of two clients want %d locks: %d lists, want %d at most", many, len(names), lists, most)
		}
		cancel()
		for _, ch := range all {
			<-ch
		}
		w.unlockAll(first)
		w.empty()
	})
}
