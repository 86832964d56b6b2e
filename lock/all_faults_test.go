// Several locks together: lost replies, outages, dead holders, lost entries.

package lock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestAmbiguousLockOfAll: the reply to the one transaction is lost.
func TestAmbiguousLockOfAll(t *testing.T) {
	for _, free := range []bool{true, false} {
		for _, try := range []bool{false, true} {
			if try && !free {
				continue
			}
			t.Run(fmt.Sprintf("free %v try %v", free, try), func(t *testing.T) {
				forEachMishap(t, func(w *world, i int) {
					a, b := w.client("a"), w.client("b")
					w.unlockAll(w.lockAll(a, "x", "y", "z"))
					var h *lock.Hold
					if !free {
						h = w.lock(b, "y")
					}
					hit := w.mishap(i, "a", joins)
					all := a.All([]string{"x", "y", "z"})
					take := all.Lock
					if try {
						take = all.TryLock
					}
					ch := startAll(func() (*lock.Holds, error) { return take(w.ctx) })
					w.until("the mishap", hit)
					time.Sleep(ttl)
					if h != nil {
						w.waitsAll(ch)
						w.unlock(h)
					}
					hs := w.expectAll(ch)
					w.soleAll(hs)
					w.unlockAll(hs)
					w.empty()
				})
			})
		}
	}
}

func TestAmbiguousUnlockOfAll(t *testing.T) {
	for _, queued := range []bool{false, true} {
		t.Run(fmt.Sprintf("queued %v", queued), func(t *testing.T) {
			forEachMishap(t, func(w *world, i int) {
				a, b := w.client("a"), w.client("b")
				hs := w.lockAll(a, "x", "y", "z")
				var ch <-chan takenAll
				if queued {
					ch = w.queueAll(w.ctx, b, "y", "x")
				}
				hit := w.mishap(i, "a", leaves(hs.Hold("x")))
				mustBe(w, hs.Unlock(), nil)
				if !hit() {
					t.Fatal("there was no mishap")
				}
				if queued {
					got := <-ch
					if got.err != nil {
						t.Fatal(got.err)
					}
					w.soleAll(got.holds)
					w.unlockAll(got.holds)
				}
				w.empty()
			})
		})
	}
}

// TestAbandonedLockOfAll: the caller gives up while the entries are being made, and closes
// the client. That is not done before all of them are gone.
func TestAbandonedLockOfAll(t *testing.T) {
	for name, fault := range lateReplies {
		if name == outlasts {
			continue
		}
		subtest(t, name, locktest.Options{}, func(w *world) {
			a := w.client("a")
			w.unlockAll(w.lockAll(a, "x", "y", "z"))
			time.Sleep(2 * time.Second)
			hit := w.fault(func(r locktest.Request) bool {
				return r.Label == "a" && joins(r) && touches(r, "/locks/z")
			}, fault)
			ctx := w.limited(5 * time.Millisecond)
			_, err := a.LockAll(ctx, "x", "y", "z")
			mustBe(w, err, context.DeadlineExceeded)
			if !hit() {
				w.Fatal("gave up before the entries were asked for")
			}
			mustBe(w, a.Close(), nil)
			if left := w.nodes(); len(left) > 0 {
				w.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestOneOfAllGoneWhileItWaits: if the entry in one queue is gone, those in all queues are
// made anew, at the end, in one transaction: one made anew by itself could have others ahead
// that wait for its companions.
func TestOneOfAllGoneWhileItWaits(t *testing.T) {
	for _, first := range []bool{true, false} { // the entry of a lock whose turn has come, or not
		subtest(t, fmt.Sprintf("first %v", first), locktest.Options{}, func(w *world) {
			a, b, d := w.client("a"), w.client("b"), w.client("d")
			h := w.lock(b, "y")
			one := w.queueAll(w.ctx, a, "x", "y", "z")
			other := w.queueAll(w.ctx, d, "z", "x")
			gone := w.entries("y")[1]
			if first {
				gone = w.entries("x")[0]
			}
			w.remove(w.raw("admin"), gone.Path)
			w.until("it has queued again", func() bool { return a.Stats().Requeued > 0 })
			hs := w.expectAll(other) // which the entries at z and x had held up
			settle()
			x, y, z := w.entries("x"), w.entries("y"), w.entries("z")
			if len(x) != 2 || len(y) != 2 || len(z) != 2 {
				w.Fatalf("entries %q, %q, %q, want two each", paths(x), paths(y), paths(z))
			}
			if x[1].Stat.Czxid != y[1].Stat.Czxid || y[1].Stat.Czxid != z[1].Stat.Czxid {
				w.Error("the entries were not made anew in one transaction")
			}
			w.unlock(h)
			w.waitsAll(one)
			w.unlockAll(hs)
			w.unlockAll(w.expectAll(one))
			w.empty()
		})
	}
}

// TestAllWaitOverOutages: a client that waits for several locks loses no place while sessions end,
// and outages are shorter than the lease; after a longer one it queues again.
func TestAllWaitOverOutages(t *testing.T) {
	for _, long := range []bool{false, true} {
		subtest(t, fmt.Sprintf("long %v", long), locktest.Options{}, func(w *world) {
			a, b, d := w.client("a"), w.client("b"), w.client("d")
			h := w.lock(b, "y")
			one := w.queueAll(w.ctx, a, "x", "y")
			x := w.queue(w.ctx, d, "x")
			outage := ttl / 2
			if long {
				outage = 2 * ttl
			}
			w.kill("a")
			w.ExpireLabel("a")
			time.Sleep(outage)
			if long {
				got := w.expect(x) // the waiter behind the dead one has purged it
				w.Heal("a")
				time.Sleep(ttl)
				w.unlock(h)
				w.waitsAll(one)
				w.unlock(got.hold)
			} else {
				w.Heal("a")
				time.Sleep(ttl)
				w.waits(x)
				w.unlock(h)
			}
			hs := w.expectAll(one)
			for h := range hs.All() {
				w.alive(h)
			}
			w.unlockAll(hs)
			if !long {
				w.unlock(w.expect(x).hold)
			}
			w.empty()
		})
	}
}

// TestAllJoinedTooLongAgo: by the reply no entry is ahead at any of several locks, but it comes
// when another client may have purged the entries. That has happened to one of them.
func TestAllJoinedTooLongAgo(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a", lock.WithSessionTimeout(6*ttl)), w.client("b") // the connection does not end meanwhile
		w.unlock(w.lock(b, "other"))
		hit := w.fault(func(r locktest.Request) bool { return r.Label == "a" && joins(r) }, locktest.Fault{DelayReply: 2 * ttl})
		one := startAll(func() (*lock.Holds, error) { return a.LockAll(w.ctx, "x", "y") })
		w.until("the entries are made", hit)
		got := w.await(w.queue(w.ctx, b, "x"))
		time.Sleep(2 * ttl)
		w.waitsAll(one)
		w.alive(got.hold)
		w.unlock(got.hold)
		hs := w.expectAll(one)
		w.soleAll(hs)
		w.unlockAll(hs)
		w.empty()
	})
}

// TestDeadHolderOfAll blocks each of its locks for TTL and grace, and a waiter for several
// dead ones does not wait for one after the other.
func TestDeadHolderOfAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		names := []string{"x", "y", "z"}
		w.lockAll(a, names...)
		ch := w.queueAll(w.ctx, b, names...)
		w.kill("a")
		dead := time.Now()
		got := <-ch
		if got.err != nil {
			t.Fatal(got.err)
		}
		atMost(w, "three dead holders blocked for", time.Since(dead), ttl+grace+time.Second)
		w.unlockAll(got.holds)
		w.Heal("a")
		w.empty()
	})
}

// TestCloseWhileAllAreWaitedFor: nothing is left, and nothing is had.
func TestCloseWhileAllAreWaitedFor(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(b, "y")
		held := w.lockAll(a, "u", "v")
		ch := w.queueAll(w.ctx, a, "x", "y")
		mustBe(w, a.Close(), nil)
		mustBe(t, w.outcomeAll(ch).err, lock.ErrClosed)
		mustBe(t, context.Cause(held.Context()), lock.ErrClosed)
		mustBe(t, held.Unlock(), lock.ErrClosed)
		_, err := a.LockAll(w.ctx, "x")
		mustBe(t, err, lock.ErrClosed)
		w.unlock(h)
		w.empty()
	})
}

// TestStaleLeaseOfOneOfAll: the first of two locks comes free when the lease on the second may be
// over soon.
func TestStaleLeaseOfOneOfAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(b, "x")
		done := make(chan *lock.Holds, 1)
		go func() {
			h, err := a.LockAll(w.ctx, "x", "y")
			mustBe(w, err, nil)
			done <- h
		}()
		w.until("it waits", func() bool { return len(w.entries("y")) == 1 })
		own := w.entries("y")[0].Path
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if i := slices.Index(r.Paths, own); i >= 0 && mutates(r, "a") {
				return locktest.Fault{Code: codeQuota, Op: i + 1}
			}
			return locktest.Fault{}
		})
		time.Sleep(ttl * 3 / 4)
		w.unlock(h)
		settle()
		select {
		case <-done:
			t.Error("it has both, and one is not renewed")
			w.Intercept(nil)
		default:
			w.Intercept(nil)
			h := <-done
			mustBe(w, h.Unlock(), nil)
		}
	})
}

// TestLockOfAllInDoubt: of what a transaction of unknown outcome has made, one entry was
// removed meanwhile. All others go, and do not block their locks until they expire.
func TestLockOfAllInDoubt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		hit := w.fault(func(r locktest.Request) bool { return joins(r) && w.cutOffSoon("a") }, locktest.Fault{Drop: locktest.AfterApply})
		done := make(chan *lock.Holds, 1)
		go func() {
			h, err := a.LockAll(w.ctx, "x", "y", "z")
			if err != nil {
				t.Error(err)
			}
			done <- h
		}()
		w.until("the mishap", hit)
		w.remove(z, w.entries("x")[0].Path)
		healed := time.Now()
		w.Heal("a")
		h := <-done
		if took := time.Since(healed); took > ttl/2 {
			t.Errorf("it took %v", took)
		}
		for _, name := range []string{"x", "y", "z"} {
			if e := w.entries(name); len(e) != 1 {
				t.Errorf("entries %q", paths(e))
			}
		}
		if err := h.Unlock(); err != nil {
			t.Error(err)
		}
		w.empty()
	})
}
