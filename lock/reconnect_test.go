package lock_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestWaiterWritesBeforeItJudges: after an outage of its own a waiter purges nobody
// before its own entry has been written, however long that takes.
func TestWaiterWritesBeforeItJudges(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		ended := w.end(h)
		b := w.dial("b")
		ch := w.queue(w.ctx, b, "x")
		own := w.entries("x")[1].Path
		w.kill("a")
		w.Partition("b")
		time.Sleep(2 * ttl)
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if mutates(r, "b") && touches(r, own) {
				return locktest.Fault{Code: codeThrottled}
			}
			return locktest.Fault{}
		})
		w.Heal("b")
		time.Sleep(2 * ttl)
		if n := b.Stats().Purged; n != 0 || len(w.Dump(pathOf(h))) == 0 {
			w.Errorf("purged %d before its own entry was written", n)
		}
		w.Intercept(nil)
		got := w.await(ch)
		w.inTurn(ended, got)
		w.unlock(got.hold)
		w.Heal("a")
		w.empty()
	})
}

// TestPurgeStopsAtWhatIsHidden: the waiter behind a dead one may purge that, and cannot
// read what stands before it. It is there all the same.
func TestPurgeStopsAtWhatIsHidden(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		b, z := w.dial("b"), w.raw("other")
		h := w.lock(w.dial("a"), "x")
		if _, err := z.SetACL(pathOf(h), zk.WorldACL(zk.PermWrite), -1); err != nil {
			w.Fatal(err)
		}
		w.queue(w.ctx, w.dial("dead"), "x")
		ch := w.queue(w.ctx, b, "x")
		w.kill("dead")
		w.until("the dead one is purged", func() bool { return len(w.entries("x")) == 2 })
		time.Sleep(3 * ttl)
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestSlowRenewalWidensTheWindow: the leader has stamped the renewal at any time
// between its sending and the reply. What is known of its clock says so.
func TestSlowRenewalWidensTheWindow(t *testing.T) {
	const slow = 2 * time.Second
	for name, fault := range map[string]locktest.Fault{
		"on the way there": {Delay: slow}, "on the way back": {DelayReply: slow},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, locktest.Options{}, func(w *world) {
				a := w.dial("a")
				h := w.lock(a, "x")
				w.until("a slow renewal", w.fault(func(r locktest.Request) bool { return renews(r, h) }, fault))
				w.until("its reply", func() bool { return a.Stats().Renewals == 1 })
				now := time.Now()
				if earliest, latest := timeKnownTo(a); earliest.After(now) || latest.Before(now) {
					w.Errorf("the leader's clock shows %v, and is thought to be in %v to %v", now, earliest, latest)
				}
				time.Sleep(2 * ttl)
				if n := a.Stats().Displacements; n != 0 {
					w.Errorf("%d displacements of a clock that runs true", n)
				}
				w.alive(h)
				w.unlock(h)
			})
		})
	}
}

// TestRenewalCountsForTheSessionItWasSentIn, and not for one that has begun when its
// sender looks at the reply: the server of that may lag behind.
func TestRenewalCountsForTheSessionItWasSentIn(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := newClock(0, 0)
		var slow atomic.Bool
		a, b := w.dial("a"), w.dial("b", lock.WithClock(func() (mono, wall time.Duration) {
			if slow.Swap(false) {
				time.Sleep(ttl / 4)
			}
			return c.now()
		}))
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		own, first := w.entries("x")[1].Path, b.Session()

		// As it reads the holder's entry, the waiter's wall clock is set forward, so that
		// its sample of the leader's is worth nothing, and it takes another by renewing
		// its own entry. When it has the reply, it sleeps, and its session ends.
		lagsBehind := lagging("b", b)
		var stepped, renewed atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			switch {
			case r.Label != "b":
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case lags && touches(r, "/locks/x") && r.Op != "setWatches":
				return locktest.Fault{Code: codeNoNode} // it is older than the lock
			case r.Op == "getData" && touches(r, pathOf(h)) && !stepped.Swap(true):
				c.step(time.Hour)
			}
			return locktest.Fault{}
		})
		w.Trace(func(e locktest.Event) {
			if e.Kind == "request" && e.Label == "b" && e.Session == first && stepped.Load() &&
				(e.Op == "setData" || e.Op == "multi") && slices.Contains(e.Paths, own) && !renewed.Swap(true) {
				slow.Store(true)
				time.AfterFunc(time.Second, func() { w.ExpireLabel("b") })
			}
		})
		time.Sleep(2 * ttl)
		if !renewed.Load() || b.Session() == first {
			w.Fatalf("renewed %v, session %#x became %#x", renewed.Load(), first, b.Session())
		}
		w.Trace(nil)
		w.Intercept(nil)
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestStaleListCostsNoPlace: the list of a server that lags behind does not have the
// waiter's own entry. The waiter has it catch up before it takes that for gone.
func TestStaleListCostsNoPlace(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		h := w.lock(a, "x")
		second := w.queue(w.ctx, b, "x")
		third := w.queue(w.ctx, c, "x")
		own := w.entries("x")[1].Path
		lagsBehind := lagging("b", b)
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			switch {
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case lags && touches(r, "/locks/x") && r.Op != "setWatches":
				return locktest.Fault{Code: codeNoNode} // it is older than the lock
			}
			return locktest.Fault{}
		})
		w.ExpireLabel("b")
		time.Sleep(ttl)
		w.waits(second)
		if s := b.Stats(); s.Requeued != 0 || len(w.Dump(own)) == 0 {
			w.Errorf("stats %+v, entries %q, want %s among them", s, paths(w.entries("x")), own)
		}
		w.unlock(h)
		got := w.await(second)
		if pathOf(got.hold) != own {
			w.Errorf("has it by %s, want %s", pathOf(got.hold), own)
		}
		w.waits(third)
		w.unlock(got.hold)
		w.unlock(w.await(third).hold)
		w.empty()
	})
}

// TestReconnectRenews at once what would not be due for long: in the meantime another
// leader may have begun, by whose stamps it is judged.
func TestReconnectRenews(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x", lock.WithTTL(10*ttl))
		ch := w.queue(w.ctx, a, "x", lock.WithTTL(10*ttl))
		var before []int32
		for _, e := range w.entries("x") {
			before = append(before, e.Stat.Version)
		}
		w.Cut("a")
		time.Sleep(ttl / 4)
		for i, e := range w.entries("x") {
			if e.Stat.Version <= before[i] {
				w.Errorf("%s is at version %d still", e.Path, e.Stat.Version)
			}
		}
		w.unlock(h)
		w.unlock(w.expect(ch).hold)
	})
}
