package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestCounterNearItsEnd drives a parent's counter to where it has to be drained,
// and to where real servers stick. All who queued are served, one at a time, and
// the counter starts anew: for parents that are ours, kept or adopted.
func TestCounterNearItsEnd(t *testing.T) {
	for _, next := range []int32{math.MaxInt32 - 1, math.MaxInt32, math.MaxInt32 - 1, math.MaxInt32} {
		for _, parent := range []string{"ours", "kept", "adopted"} {
			t.Run(fmt.Sprintf("%d %s", next, parent), func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) {
					p := policies{TTL: ttl, Grace: grace, KeepParent: parent == "kept"}
					a, b := w.dial("a", lock.WithPolicies(p)), w.dial("b", lock.WithPolicies(p))
					w.unlock(w.lock(b, "other"))
					if parent == "adopted" {
						if _, err := w.raw("admin").Create("/locks/x", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
							t.Fatal(err)
						}
					}
					h := w.lock(a, "x")
					czxid := w.node("/locks/x").Stat.Czxid
					if err := w.SetSequence("/locks/x", next); err != nil {
						t.Fatal(err)
					}
					var queue []<-chan taken
					for i := range 6 {
						c := []*lock.Client{a, b}[i%2]
						queue = append(queue, start(func() (*lock.Hold, error) { return c.Mutex("x").Lock(w.ctx) }))
						time.Sleep(3 * time.Second)
					}
					w.alive(h)
					if n := len(w.entries("x")); n > 2 {
						t.Errorf("%d entries stay near the end of the counter", n)
					}
					for i := range queue {
						w.unlock(h)
						last := h.Token()
						h = w.next(queue)
						if h.Token().Compare(last) <= 0 {
							t.Errorf("token %v follows %v", h.Token(), last)
						}
						if i == 1 && w.node("/locks/x").Stat.Czxid == czxid {
							t.Error("the parent was not made anew")
						}
					}
					if strings.Contains(h.EntryPath(), "-21474") {
						t.Errorf("%s: the counter did not start anew", h.EntryPath())
					}
					w.unlock(h)
					h = w.lock(a, "x")
					w.unlock(h)
				})
			})
		}
	}
}

// TestDrainingEntryGivenUp: whoever came near the end of the counter and has withdrawn is
// the last one out then, and gives up while a request of it is on its way.
func TestDrainingEntryGivenUp(t *testing.T) {
	for k := range 3 { // deletes the entry, reads the parent, deletes it
		t.Run(fmt.Sprint("request ", k), func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b := w.dial("a"), w.dial("b")
				w.unlock(w.lock(a, "other"))
				h := w.lock(b, "x")
				if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
					t.Fatal(err)
				}
				var seen atomic.Int32 // from the delete on
				w.Intercept(func(r locktest.Request) locktest.Fault {
					if r.Label != "a" || seen.Load() == 0 && r.Op != "delete" {
						return locktest.Fault{}
					}
					if n := seen.Add(1); n == int32(k)+1 {
						return locktest.Fault{Delay: 2 * time.Second}
					} else if n == 1 {
						return locktest.Fault{Delay: 300 * time.Millisecond} // until the holder has left
					}
					return locktest.Fault{}
				})
				ctx, cancel := context.WithTimeout(w.ctx, time.Second)
				defer cancel()
				ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(ctx) })
				w.until("it withdraws", func() bool { return seen.Load() == 1 })
				w.unlock(h)
				time.Sleep(time.Second)
				mustBe(t, w.outcome(ch).err, context.DeadlineExceeded)
				if n := seen.Load(); n <= int32(k) {
					t.Errorf("%d requests, want more than %d", n, k)
				}
				time.Sleep(3 * time.Second)
				w.empty()
			})
		})
	}
}

// next returns the first hold that comes from any of the queues, and checks that
// no other does.
func (w *world) next(queue []<-chan taken) *lock.Hold {
	w.Helper()
	var got *lock.Hold
	w.until("somebody has it", func() bool {
		for _, ch := range queue {
			select {
			case t := <-ch:
				if t.err != nil {
					w.Fatal(t.err)
				}
				got = t.hold
				return true
			default:
			}
		}
		return false
	})
	time.Sleep(3 * time.Second)
	for _, ch := range queue {
		select {
		case t := <-ch:
			w.Fatalf("a second one has it: %v, %v", t.hold, t.err)
		default:
		}
	}
	w.alive(got)
	return got
}

// TestAloneAtTheEndOfTheCounter: who is alone may stay, and its leaving starts the
// count anew.
func TestAloneAtTheEndOfTheCounter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: true}))
		w.unlock(w.lock(a, "x"))
		if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		h := w.lock(a, "x")
		if !strings.HasSuffix(h.EntryPath(), "-2147483647") {
			t.Errorf("entry %s", h.EntryPath())
		}
		w.unlock(h)
		if n := w.nodes(); len(n) != 0 {
			t.Errorf("%q: a parent at the end of its counter was kept", n)
		}
		h = w.lock(a, "x")
		if !strings.HasSuffix(h.EntryPath(), "-0000000000") {
			t.Errorf("entry %s", h.EntryPath())
		}
		w.unlock(h)
	})
}

// TestDrainingWaiterGivesUp, and TryLock does not wait at all.
func TestDrainingWaiterGivesUp(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(w.ctx)
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(ctx) })
		time.Sleep(10 * time.Second)
		w.waits(ch)
		cost := w.cost("b", func() { time.Sleep(time.Minute) })
		if cost.total() > 3*60+5 || cost.txns > 20 {
			t.Errorf("waiting for a minute cost %v and %d transactions", cost.requests, cost.txns)
		}
		cause := errors.New("closing time")
		cancel(cause)
		mustBe(t, w.outcome(ch).err, context.Canceled, cause)
		_, err := b.Mutex("x").TryLock(w.ctx)
		mustBe(t, err, lock.ErrHeld)
		w.alive(h)
		if n := len(w.entries("x")); n != 1 {
			t.Errorf("%d entries", n)
		}
		w.unlock(h)
		w.empty()
	})
}

// TestTryLockBesideOneThatDrains: a Lock of the same client waits until the counter starts
// anew, which it does not while somebody else's node is there. TryLock does not wait for
// that, nor for its turn.
func TestTryLockBesideOneThatDrains(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		h := w.lock(b, "x")
		if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
		time.Sleep(time.Second)
		w.create(z, "/locks/x/somebody-elses", "", 0)
		w.unlock(h)
		w.waits(ch)
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		_, err := a.Mutex("x").TryLock(ctx)
		if mustBe(t, err, lock.ErrHeld); ctx.Err() != nil {
			t.Error("TryLock has waited")
		}
		w.waits(ch)
		w.remove(z, "/locks/x/somebody-elses")
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestEntriesThatOverflowed are ordered by their creation: their sequences are
// all the same, or negative.
func TestEntriesThatOverflowed(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("old")
		w.unlock(w.lock(a, "other"))
		record := &znode.Record{Owner: "old", TTL: ttl.Milliseconds()}
		put := func(name string) {
			if _, err := z.Create("/locks/x/"+name, record.Encode(), 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := z.Create("/locks/x", znode.Parent{Kind: znode.Mutex}.Encode(), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		names := []string{"e000000000000000-lock-2147483647", "b000000000000000-lock--2147483648", "c000000000000000-lock-2147483647"}
		for _, n := range names {
			put(n)
		}
		_, err := a.Mutex("x").TryLock(w.ctx)
		var held *lock.HeldError
		if !errors.As(err, &held) || held.Entry != "/locks/x/"+names[0] {
			t.Errorf("error is %v, want one that names %s", err, names[0])
		}
		if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		// Nobody renews them: they are purged, whichever way they are ordered, and
		// the counter starts anew.
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
		got := w.await(ch)
		w.sole(got.hold)
		if !strings.HasSuffix(got.hold.EntryPath(), "-0000000000") {
			t.Errorf("entry %s", got.hold.EntryPath())
		}
		w.unlock(got.hold)
		w.empty()
	})
}

// TestHolderDiesAtTheEndOfTheCounter: nobody follows it in the queue, and it is
// purged all the same.
func TestHolderDiesAtTheEndOfTheCounter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		ended := w.end(h)
		if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		time.Sleep(3 * ttl)
		w.alive(h)
		w.waits(ch)
		d := w.die("a", h.EntryPath())
		got := w.await(ch)
		w.inTurn(ended, got)
		w.purged(d, got.at, 0, 4*time.Second)
		if n := b.Stats().Purged; n != 1 {
			t.Errorf("%d purged", n)
		}
		w.unlock(got.hold)
	})
}

// TestEntryRemovedAsItIsWithdrawn: who is to wait until the counter starts anew finds its
// entry gone as it withdraws it. The client does not go on counting it: it deletes the
// lock's parent when it leaves.
func TestEntryRemovedAsItIsWithdrawn(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("admin")
		h := w.lock(b, "x")
		if err := w.SetSequence("/locks/x", math.MaxInt32-1); err != nil {
			t.Fatal(err)
		}
		hit := w.fault(func(r locktest.Request) bool { return r.Label == "a" && r.Op == "delete" }, locktest.Fault{Delay: time.Second})
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
		w.until("it withdraws", hit)
		w.remove(z, w.entries("x")[1].Path)
		time.Sleep(2 * time.Second)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}
