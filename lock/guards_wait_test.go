package lock_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestGuardSight: a server of a new session, which lags behind, shows the predicted
// predecessor, which has left before the waiter joined. That it goes does not let the waiter
// in, also if its own entry was written in that session by then.
func TestGuardSight(t *testing.T) {
	for name, endsBefore := range map[string]bool{"the session ends during the read": false, "the session ends before the read": true} {
		t.Run(name, func(t *testing.T) { testGuardSight(t, endsBefore) })
	}
}

func testGuardSight(t *testing.T, endsBefore bool) {
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
		h := w.lock(a, "x")
		ctx, cancel := context.WithCancel(w.ctx)
		gone := w.queue(ctx, c, "x")
		old := w.entries("x")[1]
		record := w.record(old.Path)
		cancel()
		<-gone
		w.until("the second one has left", func() bool { return len(w.entries("x")) == 1 })

		lagsBehind := lagging("b", b)
		var asked, shown atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			switch {
			case r.Label != "b" || !touches(r, "/locks/x"):
			case !endsBefore && r.Op == "getData" && touches(r, old.Path) && !asked.Swap(true):
				w.ExpireLabel("b")
				return locktest.Fault{Drop: locktest.BeforeApply}
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case lags && r.Op == "getData" && touches(r, old.Path) && !shown.Swap(true):
				if _, err := z.Create(old.Path, record.Encode(), 0, zk.WorldACL(zk.PermAll)); err != nil {
					t.Error(err)
				}
			}
			return locktest.Fault{}
		})
		ends.Store(endsBefore)
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		w.until("the lagging server shows it", shown.Load)
		own := w.entries("x")[1].Path // it is older than what is shown
		w.until("the own entry is written", func() bool { return w.node(own).Stat.Version > 0 })
		settle()
		w.remove(z, old.Path)
		time.Sleep(time.Second)
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
	})
}

// TestGuardRenewedHolder: a holder that renews its entry has not left.
func TestGuardRenewedHolder(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		ch := w.queue(w.ctx, w.dial("b"), "x")
		time.Sleep(2 * ttl)
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestGuardOwnEntryGone: the own entry of a waiter is gone when the waiter ahead gives up.
func TestGuardOwnEntryGone(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("other")
		h := w.lock(w.dial("a"), "x")
		ctx, cancel := context.WithCancel(w.ctx)
		ahead := w.queue(ctx, w.dial("b"), "x")
		ch := w.queue(w.ctx, w.dial("c"), "x")
		w.remove(z, w.entries("x")[2].Path)
		cancel()
		<-ahead
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestGuardGivenUp: the entry of a waiter that gives up goes at once.
func TestGuardGivenUp(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		ctx, cancel := context.WithCancel(w.ctx)
		ch := w.queue(ctx, w.dial("b"), "x")
		cancel()
		<-ch
		time.Sleep(100 * time.Millisecond)
		if e := w.entries("x"); len(e) != 1 {
			t.Errorf("entries %q, want that of the hold", paths(e))
		}
		w.unlock(h)
		w.empty()
	})
}

// TestGuardForeignBetween: a waiter behind another library's entry leaves the living holder
// before that alone.
func TestGuardForeignBetween(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("other")
		h := w.lock(w.dial("a"), "x")
		theirs := w.create(z, "/locks/x/_c_9f86d081-884c-7d65-9f86-d081884c7d65-lock-", "", zk.FlagSequence)
		ch := w.queue(w.ctx, w.dial("b"), "x")
		time.Sleep(3 * ttl)
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		w.waits(ch)
		w.remove(z, theirs)
		w.unlock(w.await(ch).hold)
	})
}

// waiting starts a call of a client that waits for a lock.
func (w *world) waiting(ctx context.Context, c *lock.Client, name string) <-chan taken {
	w.Helper()
	ch := start(func() (*lock.Hold, error) { return c.Mutex(name).Lock(ctx) })
	settle()
	return ch
}

// TestGuardLook: goroutines wait for a hold of their process when another client comes. One
// of them joins then, and so stands before a third client that comes later.
func TestGuardLook(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.users("a", 0), w.users("b", 0), w.users("c", 0)
		h := w.lock(a, "x")
		here := w.waiting(w.ctx, a, "x")
		time.Sleep(time.Second)
		if e := w.entries("x"); len(e) != 1 {
			t.Errorf("entries %q, want that of the hold", paths(e))
		}
		other := w.queue(w.ctx, b, "x")
		time.Sleep(time.Second)
		if e := w.entries("x"); len(e) != 3 {
			t.Errorf("entries %q, want one for the waiter of the holder's process too", paths(e))
		}
		last := w.queue(w.ctx, c, "x")
		w.unlock(h)
		w.waits(here)
		w.unlock(w.await(other).hold)
		w.waits(last)
		w.unlock(w.await(here).hold)
		w.unlock(w.await(last).hold)
		w.empty()
	})
}

// TestGuardLookAlone: goroutines that wait for a hold of their process, which is alone, have no
// entry, and have its lock handed on after the window too.
func TestGuardLookAlone(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.users("a", 0)
		h := w.lock(a, "x")
		ch := w.waiting(w.ctx, a, "x")
		time.Sleep(200 * time.Millisecond)
		if e := w.entries("x"); len(e) != 1 {
			t.Errorf("entries %q, want that of the hold", paths(e))
		}
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestGuardServedAsItGivesUp: a goroutine gives up at the moment in which it is served.
func TestGuardServedAsItGivesUp(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.users("a", 0)
		for range 20 {
			h := w.lock(a, "x")
			ctx, cancel := context.WithCancel(w.ctx)
			ch := w.waiting(ctx, a, "x")
			cancel()
			w.unlock(h)
			if got := w.outcome(ch); got.err == nil {
				w.unlock(got.hold)
			}
			within, cancel := context.WithTimeout(w.ctx, time.Second)
			h, err := a.Mutex("x").Lock(within)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			w.unlock(h)
		}
		w.empty()
	})
}

// TestGuardLostEntry: a hold is lost for which goroutines of its process wait.
func TestGuardLostEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.users("a", 0), w.raw("other")
		h := w.lock(a, "x")
		ended := w.end(h)
		ch := w.waiting(w.ctx, a, "x")
		w.remove(z, h.EntryPath())
		next := w.await(ch)
		w.inTurn(ended, next)
		if took := next.at.Sub(ended.wait()); took > 20*time.Millisecond {
			t.Errorf("the next one has the lock after %v", took)
		}
		w.unlock(next.hold)
		w.empty()
	})
}

// TestGuardKept: an entry that is kept is given back when another client comes, and after its
// time.
func TestGuardKept(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.users("a", time.Minute), w.users("b", 0)
		w.unlock(w.lock(a, "x"))
		time.Sleep(time.Second)
		if e := w.entries("x"); len(e) != 1 {
			t.Errorf("entries %q, want one that is kept", paths(e))
		}
		begun := time.Now()
		w.unlock(w.lock(b, "x"))
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the other client waited %v", took)
		}
		w.unlock(w.lock(a, "x"))
		time.Sleep(50 * time.Second)
		if e := w.entries("x"); len(e) != 1 {
			t.Errorf("entries %q, want one that is kept", paths(e))
		}
		time.Sleep(11 * time.Second)
		if e := w.entries("x"); len(e) != 0 {
			t.Errorf("entries %q, want none", paths(e))
		}
		w.empty()
	})
}

// TestGuardKeptOverAnOutage: what was kept when an outage began is not held because of that.
func TestGuardKeptOverAnOutage(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.users("a", time.Hour), w.users("b", 0)
		w.unlock(w.lock(a, "x"))
		w.kill("a")
		h := w.lock(b, "x") // once the entry has expired
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		if got, err := a.Mutex("x").TryLock(ctx); err == nil {
			t.Errorf("a try has %s, and %s holds the lock", got.EntryPath(), h.EntryPath())
		}
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
		w.waits(ch)
		w.Heal("a")
		time.Sleep(ttl)
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
	})
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.users("a", time.Hour), w.users("b", 0)
		w.unlock(w.lock(a, "x"))
		w.kill("a")
		h := w.lock(b, "x")
		ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
		w.waits(ch)
		w.alive(h)
		w.unlock(h)
		w.Heal("a")
		w.unlock(w.await(ch).hold)
	})
}

// TestGuardHandoffs: the token rises with each hand-over, and a holder that joined alone
// leaves although others came since.
func TestGuardHandoffs(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.users("a", 0), w.users("b", 0)
		h := w.lock(a, "x")
		var here []<-chan taken
		for range 3 {
			here = append(here, w.waiting(w.ctx, a, "x"))
		}
		for _, ch := range here {
			before := h
			w.unlock(h)
			h = w.await(ch).hold
			if h.EntryPath() != before.EntryPath() || h.Token().Compare(before.Token()) <= 0 {
				t.Errorf("%s with token %v follows %s with %v", h.EntryPath(), h.Token(), before.EntryPath(), before.Token())
			}
		}
		ch := w.queue(w.ctx, b, "x")
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

func TestGuardAmbiguousUnlock(t *testing.T) {
	forEachMishap(t, func(w *world, mishap int) {
		h := w.lock(w.dial("a"), "x")
		hit := w.mishap(mishap, "a", leaves(h))
		if err := h.Unlock(); err != nil {
			w.Error(err)
		}
		w.until("the mishap", hit)
		time.Sleep(time.Second)
		if e := w.entries("x"); len(e) != 0 {
			w.Errorf("entries %q", paths(e))
		}
		w.empty()
	})
}

func TestGuardParentWritten(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("other")
		h := w.lock(w.dial("a"), "x")
		if _, err := z.Set("/locks/x", []byte("theirs"), -1); err != nil {
			t.Fatal(err)
		}
		w.unlock(h)
		time.Sleep(5 * time.Second)
		w.holds("/locks/x", "theirs")
		if e := w.entries("x"); len(e) != 0 {
			t.Errorf("entries %q", paths(e))
		}
	})
}

// TestGuardUsedAgain: the parent of a lock that is used again within a second stays for so long.
func TestGuardUsedAgain(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.unlock(w.lock(a, "x"))
		if n := w.nodes(); len(n) != 0 {
			t.Errorf("left behind: %q", n)
		}
		w.unlock(w.lock(a, "x"))
		if n := w.nodes(); len(n) != 2 {
			t.Errorf("nodes %q, want a parent and its anchor", n)
		}
		w.empty()
	})
}

// TestGuardCloseBesideAGoneEntry: a client that closes deletes its entries in one transaction,
// of which one is gone.
func TestGuardCloseBesideAGoneEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		var holds []*lock.Hold
		for _, name := range []string{"x", "y", "z"} {
			holds = append(holds, w.lock(a, name))
		}
		w.remove(z, holds[1].EntryPath())
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		for _, h := range holds {
			if e := w.entries(h.Name()); len(e) != 0 {
				t.Errorf("entries %q", paths(e))
			}
		}
	})
}

func TestGuardTidy(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		ch := w.queue(w.ctx, w.dial("b"), "x")
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestGuardRemovedEntry: the parent of an entry that another client has removed is looked after.
func TestGuardRemovedEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("other")
		h := w.lock(w.dial("a"), "x")
		ended := w.end(h)
		w.remove(z, h.EntryPath())
		ended.wait()
		w.empty()
	})
}

// tidies reports whether a request deletes the parent of that lock and no entry.
func tidies(r locktest.Request, name string) bool {
	return r.Op == "multi" && slices.Contains(r.Paths, "/locks/"+name) && touches(r, "/locks/"+name+"/anchor-") && !touches(r, "-lock-")
}

func TestGuardTidyOfAWrittenParent(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.twice(a, "x")
		w.until("it tidies", w.before(func(r locktest.Request) bool { return tidies(r, "x") }, func() {
			if _, err := z.Set("/locks/x", []byte("theirs"), -1); err != nil {
				t.Error(err)
			}
		}))
		time.Sleep(5 * time.Second)
		w.holds("/locks/x", "theirs")
	})
}

// TestGuardTidyBesideAUsedParent: of several parents one cannot be deleted.
func TestGuardTidyBesideAUsedParent(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("other")
		w.twice(a, "x", "y", "z")
		w.until("it tidies", w.before(func(r locktest.Request) bool { return tidies(r, "x") && tidies(r, "y") && tidies(r, "z") }, func() {
			w.create(z, "/locks/x/theirs", "", 0)
		}))
		time.Sleep(5 * time.Second)
		for _, name := range []string{"y", "z"} {
			if n := w.Dump("/locks/" + name); len(n) > 0 {
				t.Errorf("left behind: %q", paths(n))
			}
		}
		w.node("/locks/x/theirs")
	})
}

// TestGuardTidyOfAUsedLock: the duty for a parent outlives a look at the lock by the same
// client.
func TestGuardTidyOfAUsedLock(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		ctx, cancel := context.WithCancel(w.ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range a.Election("x").Observe(ctx) {
			}
		}()
		settle()
		w.twice(a, "x")
		time.Sleep(3 * time.Second)
		cancel()
		<-ended
		w.empty()
	})
}

// TestGuardStaleHandoff: what is handed on inside the window, when less than half of its lease
// is left, is written before the next goroutine has it.
func TestGuardStaleHandoff(t *testing.T) {
	const short = 3 * time.Second
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: short, Grace: grace, LocalWindow: time.Second}))
		h := w.lock(a, "x")
		ch := w.waiting(w.ctx, a, "x")
		w.Intercept(func(r locktest.Request) locktest.Fault { // each write of the entry, definitely
			if i := slices.Index(r.Paths, h.EntryPath()); i >= 0 && mutates(r, "a") {
				return locktest.Fault{Code: codeQuota, Op: i + 1}
			}
			return locktest.Fault{}
		})
		time.Sleep(short * 6 / 10)
		w.unlock(h)
		w.waits(ch)
		w.Intercept(nil)
		next := w.await(ch).hold
		if next.EntryPath() != h.EntryPath() || next.Remaining() < short/2 {
			t.Errorf("%s follows %s, with %v left", next.EntryPath(), h.EntryPath(), next.Remaining())
		}
		w.unlock(next)
		w.empty()
	})
}

// TestGuardStaleList: as a waiter looks for its place the first time, its session has changed.
// The new server lags behind even the creation of the own entry, which is not gone.
func TestGuardStaleList(t *testing.T) {
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
		h, err := w.dial("a").RWMutex("x").Lock(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		lagsBehind := lagging("b", b)
		w.Intercept(func(r locktest.Request) locktest.Fault {
			lags := lagsBehind(r)
			switch {
			case lags && mutates(r, "b"):
				return locktest.Fault{Code: codeThrottled}
			case lags && touches(r, "/locks/x"):
				return locktest.Fault{Code: codeNoNode} // it is older than the lock
			}
			return locktest.Fault{}
		})
		ends.Store(true)
		ch := start(func() (*lock.Hold, error) { return b.RWMutex("x").Lock(w.ctx) })
		time.Sleep(ttl)
		w.waits(ch)
		if n := b.Stats().Requeued; n != 0 {
			t.Errorf("it has queued again %d times", n)
		}
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestGuardJudgesUnwritten: after an outage of its own a waiter purges no entry before its own
// was written: behind a holder of permits, and behind another library's entry.
func TestGuardJudgesUnwritten(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		simulate(t, locktest.Options{}, func(w *world) {
			a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
			take := func(c *lock.Client) taking {
				if foreign {
					return c.Mutex("x").Lock
				}
				return permits(c.Semaphore("x", 1), 1)
			}
			h := w.take(take(a))
			var theirs []string
			if foreign {
				theirs = []string{w.create(z, "/locks/x/_c_9f86d081-884c-7d65-9f86-d081884c7d65-lock-", "", zk.FlagSequence)}
			}
			ch := w.join("x", take(b))
			own := w.entries("x")[1+len(theirs)].Path
			w.kill("a")
			w.Partition("b")
			time.Sleep(2 * ttl)
			w.refuseWrites("b", own)
			w.Heal("b")
			time.Sleep(2 * ttl)
			if n := b.Stats().Purged; n != 0 || len(w.Dump(h.EntryPath())) == 0 {
				t.Errorf("behind another library's %v: purged %d before its own entry was written", foreign, n)
			}
			w.Intercept(nil)
			w.until("the dead one is purged", func() bool { return b.Stats().Purged > 0 })
			w.remove(z, theirs...)
			w.unlock(w.await(ch).hold)
			w.Heal("a")
		})
	}
}

// TestGuardReadersAreTold: all readers that have an entry together are told of its loss.
func TestGuardReadersAreTold(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.users("a", 0)
		var readers []*lock.Hold
		for range 3 {
			readers = append(readers, w.take(a.RWMutex("x").RLock))
		}
		if n := len(w.entries("x")); n != 1 {
			t.Errorf("%d entries, want one for all", n)
		}
		w.remove(w.raw("other"), readers[0].EntryPath())
		time.Sleep(ttl)
		for i, h := range readers {
			if h.Context().Err() == nil || h.Err() == nil {
				t.Errorf("the reader %d was not told", i)
			}
		}
	})
}

// TestGuardCloseDuringUnlock: the client closes when a hold has ended and its entry is yet to be
// deleted. Close waits for that.
func TestGuardCloseDuringUnlock(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		var ends atomic.Bool
		begun := time.Now()
		closed := make(chan error, 1)
		var a *lock.Client
		a = w.dial("a", lock.WithClock(func() (mono, wall time.Duration) {
			if calledBy("(*Queue).exitOf") && ends.Swap(false) {
				go func() { closed <- a.Close() }()
				time.Sleep(time.Second)
			}
			return time.Since(begun), time.Duration(time.Now().UnixNano())
		}))
		h := w.lock(a, "x")
		ends.Store(true)
		if err := h.Unlock(); err != nil {
			t.Error(err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if e := w.entries("x"); len(e) != 0 {
			t.Errorf("left behind: %q", paths(e))
		}
	})
}

// TestGuardHolderLeavesAsItIsLookedAt: a waiter reads the holder's entry and watches it in one
// request. Were it two, the holder could leave in between.
func TestGuardHolderLeavesAsItIsLookedAt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		reads, left := 0, false
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label == "b" && r.Op == "getData" && touches(r, h.EntryPath()) {
				if reads++; reads == 2 {
					left = true
					w.unlock(h)
				}
			}
			return locktest.Fault{}
		})
		ch := w.queue(w.ctx, b, "x")
		if w.Intercept(nil); !left {
			w.unlock(h)
		}
		w.unlock(w.expect(ch).hold)
		w.empty()
	})
}
