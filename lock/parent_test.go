package lock_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// notAlone is a hold of a's that is the only one at x, and whose unlock takes three requests,
// because somebody had come and gone: the entry is deleted, the parent read, and deleted.
func (w *world) notAlone(a, b *lock.Client) *lock.Hold {
	w.Helper()
	h := w.lock(a, "x")
	w.comesAndGoes(b)
	return h
}

// comesAndGoes has the client queue for x and give up.
func (w *world) comesAndGoes(c *lock.Client) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	ch := w.queue(ctx, c, "x")
	cancel()
	mustBe(w, w.outcome(ch).err, context.Canceled)
	w.until("it has left", func() bool { return len(w.entries("x")) == 1 })
}

// ofParent says which requests of client a are about the node of lock x alone.
func ofParent(op string) func(locktest.Request) bool {
	return func(r locktest.Request) bool {
		return r.Label == "a" && r.Op == op && len(r.Paths) == 1 && r.Paths[0] == "/locks/x"
	}
}

// TestSlowUnlockTidiesUp: an unlock whose time is over when the entry has gone returns, and
// the parent is deleted all the same.
func TestSlowUnlockTidiesUp(t *testing.T) {
	unlocks := map[string]func(w *world, a, b *lock.Client) func() error{
		"one": func(w *world, a, b *lock.Client) func() error { return w.notAlone(a, b).Unlock },
		"several": func(w *world, a, b *lock.Client) func() error {
			hs, err := a.LockAll(w.ctx, "w", "x")
			if err != nil {
				w.Fatal(err)
			}
			w.comesAndGoes(b)
			return hs.Unlock
		},
	}
	for name, prepare := range unlocks {
		for _, op := range []string{"getData", "delete"} {
			t.Run(name+", slow "+op, func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) {
					a, b := w.dial("a", lock.WithUnlockTimeout(time.Second)), w.dial("b")
					w.unlock(w.lock(a, "other"))
					unlock := prepare(w, a, b)
					hit := w.fault(ofParent(op), locktest.Fault{Delay: 1500 * time.Millisecond})
					begun := time.Now()
					if err := unlock(); err != nil || !hit() || time.Since(begun) > 1100*time.Millisecond {
						t.Errorf("unlock: %v after %v; the request was slow: %v", err, time.Since(begun), hit())
					}
					time.Sleep(10 * time.Second)
					w.empty()
				})
			})
		}
	}
}

// TestParentDeleteIsLost: one request is lost, or refused for now; the client lives on, and
// looks after the parent again, while the unlock has returned.
func TestParentDeleteIsLost(t *testing.T) {
	for name, fault := range map[string]locktest.Fault{
		"lost": {Drop: locktest.BeforeApply}, "applied": {Drop: locktest.AfterApply}, "throttled": {Code: codeThrottled},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a, b := w.dial("a"), w.dial("b")
				w.unlock(w.lock(a, "other"))
				h := w.notAlone(a, b)
				hit := w.fault(ofParent("delete"), fault)
				if w.unlock(h); !hit() {
					t.Error("the parent was not deleted at once")
				}
				time.Sleep(10 * time.Second)
				w.empty()
			})
		})
	}
}

// TestReleaseBesideOneWhoGaveUp: a writer tells its release in the parent, and the reply shows
// one child: the entry of a reader of the same client whose caller has given up. That one is
// deleted, and counted, just before the writer is: one of the two looks after the parent.
func TestReleaseBesideOneWhoGaveUp(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var armed, paused atomic.Bool
		clk := newClock(0, 0)
		a := w.dial("a", lock.WithClock(func() (time.Duration, time.Duration) {
			if armed.Load() && calledBy("(*leaving).gone") && armed.Swap(false) {
				paused.Store(true)
				time.Sleep(300 * time.Microsecond)
			}
			return clk.now()
		}))
		b, c, d := w.dial("b"), w.dial("c"), w.dial("d")
		for _, each := range []*lock.Client{a, b, c, d} {
			w.unlock(w.lock(each, "other"))
		}
		first := w.take(b.RWMutex("x").Lock)
		// Of one who had held the lock for long before, the grant would be recorded at once,
		// and the writer need not look whether others are there.
		second := w.join("x", d.RWMutex("x").Lock)
		writer := w.join("x", a.RWMutex("x").Lock)
		ctx, cancel := context.WithCancel(w.ctx)
		third := start(func() (*lock.Hold, error) { return c.RWMutex("x").Lock(ctx) })
		settle()
		w.unlock(first)
		w.unlock((<-second).hold)
		h := (<-writer).hold
		cancel()
		<-third
		time.Sleep(20 * time.Microsecond) // it has left; and the grant is not recorded yet

		var created, told atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch {
			case r.Label == "a" && touches(r, "__READ__") && r.Op != "delete" && !created.Swap(true):
				return locktest.Fault{DelayReply: 60 * time.Microsecond}
			case r.Label == "a" && r.Op == "multi" && len(r.Paths) == 2 && r.Paths[1] == "/locks/x":
				told.Store(true)
			}
			return locktest.Fault{}
		})
		ctx, cancel = context.WithCancel(w.ctx)
		reader := start(func() (*lock.Hold, error) { return a.RWMutex("x").RLock(ctx) })
		time.Sleep(10 * time.Microsecond)
		cancel()
		<-reader
		armed.Store(true)
		w.unlock(h)
		if !created.Load() || !told.Load() || !paused.Load() {
			t.Fatalf("a reader joined: %v, the release was told: %v, and it was late: %v", created.Load(), told.Load(), paused.Load())
		}
		w.empty()
	})
}

// TestCloseAfterSlowTidy: all entries are gone; what is left of the duty for a parent
// neither keeps Close waiting nor has it say that entries are left.
func TestCloseAfterSlowTidy(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a", lock.WithUnlockTimeout(5*time.Second)), w.dial("b")
		w.unlock(w.lock(a, "other"))
		h := w.notAlone(a, b)
		hit := w.before(ofParent("getData"), func() { w.Partition("a") })
		if w.unlock(h); !hit() {
			t.Error("the parent was not read")
		}
		begun := time.Now()
		if err := a.Close(); err != nil || time.Since(begun) > 2*time.Second {
			t.Errorf("close: %v after %v, with %d entries there", err, time.Since(begun), len(w.entries("x")))
		}
	})
}

// TestParentIsReadAgainAfterAnOutage: the session ends as the parent is read. The server of the
// next one lags behind, and shows the entry that has just gone; by the next read it has caught
// up. Nobody else would delete the parent.
func TestParentIsReadAgainAfterAnOutage(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
		w.unlock(w.lock(a, "other"))
		h := w.notAlone(a, b)
		var reads atomic.Int32
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if !ofParent("getData")(r) {
				return locktest.Fault{}
			}
			switch reads.Add(1) {
			case 1:
				w.ExpireLabel("a")
				return locktest.Fault{Drop: locktest.BeforeApply}
			case 2: // what it shows is put there for as long
				w.create(z, pathOf(h), "", 0)
			case 3:
				w.remove(z, pathOf(h))
			}
			return locktest.Fault{}
		})
		w.unlock(h)
		time.Sleep(10 * time.Second)
		if n := reads.Load(); n < 3 {
			t.Errorf("the parent was read %d times", n)
			w.remove(z, w.entries("x")[0].Path)
		}
		w.empty()
	})
}

// TestOneDuty: there is one parent, and one that looks after it.
func TestOneDuty(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		w.unlock(w.lock(a, "other"))
		h := w.notAlone(a, b)
		var refuse atomic.Bool
		var reads atomic.Int32
		refuse.Store(true)
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if ofParent("getData")(r) {
				reads.Add(1)
			}
			if refuse.Load() && ofParent("delete")(r) {
				return locktest.Fault{Code: codeThrottled}
			}
			return locktest.Fault{}
		})
		w.unlock(h)
		for range 50 {
			time.Sleep(200 * time.Millisecond)
			w.unlock(w.lock(a, "x"))
		}
		reads.Store(0)
		time.Sleep(5 * time.Second)
		if n := reads.Load(); n > 20 {
			t.Errorf("one empty parent is read %d times in 5 s", n)
		}
		refuse.Store(false)
		time.Sleep(30 * time.Second)
		w.empty()
	})
}

// TestSpentIsOfOneParent: that a counter is at its end says nothing of the node that is
// made after it, which is adopted, and stays.
func TestSpentIsOfOneParent(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, z := w.dial("a"), w.dial("b"), w.raw("admin")
		w.unlock(w.lock(a, "other"))
		w.unlock(w.lock(b, "other"))
		w.create(z, "/locks/x", "", 0)
		w.unlock(w.lock(a, "x"))
		if err := w.SetSequence("/locks/x", math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		h := w.lock(a, "x")
		n := w.node("/locks/x")
		if _, err := z.Set("/locks/x", n.Data, -1); err != nil { // so that the unlock takes three requests
			t.Fatal(err)
		}
		var once, made atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if ofParent("delete")(r) && !once.Swap(true) {
				go func() {
					w.Partition("a")
					time.Sleep(100 * time.Millisecond)
					if _, err := z.Create("/locks/x", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
						t.Error(err)
					}
					w.unlock(w.lock(b, "x"))
					made.Store(true)
					w.Heal("a")
				}()
				return locktest.Fault{Drop: locktest.AfterApply}
			}
			return locktest.Fault{}
		})
		w.unlock(h)
		time.Sleep(20 * time.Second)
		if _, there := w.Node("/locks/x"); !there || !once.Load() || !made.Load() {
			t.Errorf("the adopted node is there: %v; the old one was deleted: %v; made anew: %v", there, once.Load(), made.Load())
		}
	})
}
