// Lost replies to joins, unlocks, purges and renewals: the client finds out what was applied, and
// nothing is applied twice.

package lock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

func TestAmbiguousLock(t *testing.T) {
	for _, keep := range bools { // with keep, the parent exists
		eachMishap(t, fmt.Sprintf("parent kept %v", keep), []string{"Lock", "TryLock"}, func(w *world, how string, i int) {
			a := w.client("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window, KeepParent: keep}))
			w.unlock(w.lock(a, "x"))
			before := len(w.nodes())
			w.mishap(i, "a", joins)
			take := a.Mutex("x").Lock
			if how == "TryLock" {
				take = a.Mutex("x").TryLock
			}
			began := time.Now()
			h, err := take(w.ctx)
			w.ok(err)
			atMost(w, "took, without waiting for an entry of its own,", time.Since(began), ttl-1)
			w.sole(h)
			w.unlock(h)
			time.Sleep(10 * time.Second)
			if left := w.nodes(); keep && len(left) != before || !keep && len(left) != 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

func TestAmbiguousJoinOfQueue(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, b := w.client("a"), w.client("b")
		w.unlock(w.lock(b, "other"))
		h := w.lock(a, "x")
		hit := w.mishap(i, "b", func(r locktest.Request) bool { return joinsParent(r, "x") })
		ch := start(func() (*lock.Hold, error) { return b.Mutex("x").Lock(w.ctx) })
		w.until("the mishap", hit)
		time.Sleep(ttl)
		w.waits(ch)
		w.alive(h)
		w.hasEntries("x", 2)
		w.unlock(h)
		got := w.expect(ch)
		w.sole(got.hold)
		w.finish(got.hold)
	})
}

func TestAmbiguousUnlock(t *testing.T) {
	eachMishap(t, "queued", []string{"", "a", "b"}, func(w *world, queued string, i int) { // without a window, a client exchanges its entry for another one
		clients := map[string]*lock.Client{"a": w.dial("a"), "b": w.client("b")}
		h := w.lock(clients["a"], "x")
		var ch <-chan taken
		if queued != "" {
			ch = w.queue(w.ctx, clients[queued], "x")
		}
		hit, begun := w.mishap(i, "a", leaves(h)), time.Now()
		mustBe(w, h.Unlock(), nil)
		w.until("the mishap", hit) // an exchanged entry leaves in the background
		mustBe(t, h.Unlock(), lock.ErrUnlocked)
		if ch != nil {
			got := w.await(ch)
			atMost(t, "acquired, without waiting for an entry that no goroutine has, after", got.at.Sub(begun), ttl-1)
			w.sole(got.hold)
			w.unlock(got.hold)
		}
		w.empty()
	})
}

// TestAmbiguousUnlockWithRenewalOnItsWay: Unlock deletes the entry, although a renewal of unknown
// outcome may have changed the entry's version.
func TestAmbiguousUnlockWithRenewalOnItsWay(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a := w.client("a")
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, w.client("b"), "x")
		w.until("a renewal", w.mishap(i, "a", func(r locktest.Request) bool { return renews(r, h) }))
		w.unlock(h)
		got := w.await(ch)
		w.sole(got.hold)
		w.finish(got.hold)
	})
}

func TestAmbiguousPurge(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(a, "x")
		ended := w.end(h)
		ch := w.queue(w.ctx, b, "x")
		d := w.die("a", h.EntryPath())
		w.mishap(i, "b", leaves(h))
		got := w.await(ch)
		w.inTurn(ended, got)
		w.purged(d, got.at, 0, ttl)
		w.sole(got.hold)
		w.Heal("a")
		w.finish(got.hold)
	})
}

func TestAmbiguousWithdrawal(t *testing.T) {
	forEachMishap(t, func(w *world, i int) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(a, "x")
		ctx, cancel := context.WithCancel(w.ctx)
		ch := w.queue(ctx, b, "x")
		entry := w.entries("x")[1].Path
		hit := w.mishap(i, "b", func(r locktest.Request) bool { return r.Op == "delete" && touches(r, entry) })
		cancel()
		mustBe(t, w.outcome(ch).err, context.Canceled, lock.ErrHeld)
		w.until("the mishap", hit)
		w.sole(h)
		w.finish(h)
	})
}

// readBackRefused lets the next write of the hold's entry be applied but loses the reply, and
// refuses the next read of the entry with code. hit reports whether the read was refused.
func (w *world) readBackRefused(label string, h *lock.Hold, code int32) (hit func() bool) {
	lost := false
	var refused atomic.Bool
	w.Intercept(func(r locktest.Request) locktest.Fault {
		switch {
		case r.Label != label || !touches(r, pathOf(h)):
		case !lost && mutates(r, label):
			lost = true
			return locktest.Fault{Drop: locktest.AfterApply}
		case lost && r.Op == "getData" && !refused.Swap(true):
			return locktest.Fault{Code: code}
		}
		return locktest.Fault{}
	})
	return refused.Load
}

// TestShorteningThatCannotBeReadBack: if the outcome of an Extend to a shorter lease is unknown,
// the hold ends with the shorter lease, because the entry may already have it. An Extend to a
// longer lease changes nothing before it is acknowledged.
func TestShorteningThatCannotBeReadBack(t *testing.T) {
	each(t, "code", []int32{codeNoAuth, codeQuota}, func(w *world, code int32) {
		a, b := w.client("a"), w.client("b")
		h := w.lock(a, "x")
		ended := w.end(h)
		hit := w.readBackRefused("a", h, code)
		ctx := w.limited(3 * ttl)
		const short = 2 * time.Second
		sent := time.Now()
		go h.Extend(ctx, short)
		w.until("the read-back is refused", hit)
		settle()
		atMost(w, "what remains of the shortened lease", h.Remaining(), short)
		w.kill("a")
		go h.Extend(ctx, ttl)
		got := w.await(w.queue(w.ctx, b, "x"))
		atMost(w, "the next one entered after", got.at.Sub(sent), short+grace+ttl/3+time.Second)
		w.inTurn(ended, got)
		w.unlock(got.hold)
	})
}

// TestRenewalThatCannotBeReadBackAtFirst: the reply to a renewal is lost, and the first read of the
// entry is refused. The hold stays valid, because the client remembers the bytes it wrote and
// recognizes them in a later read.
func TestRenewalThatCannotBeReadBackAtFirst(t *testing.T) {
	each(t, "code", []int32{codeNoAuth, codeQuota}, func(w *world, code int32) {
		h := w.lock(w.client("a"), "x")
		w.until("the read-back is refused", w.readBackRefused("a", h, code))
		time.Sleep(3 * ttl)
		w.alive(h)
		w.finish(h)
	})
}

// TestReentryInDoubt: after a step of the wall clock the hold may have ended during a suspend. A
// reentry confirms the hold by a write, instead of queueing behind it.
func TestReentryInDoubt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := newClock(0, 0)
		a := w.client("a", lock.WithClock(c.now))
		h := w.lock(a, "x")
		c.step(2 * ttl)
		ctx, cancel := context.WithTimeout(h.Context(), ttl)
		defer cancel()
		again, err := a.Mutex("x").Lock(ctx)
		w.ok(err)
		isTrue(t, pathOf(again) == pathOf(h) && again.Token() == h.Token(), "got %s, want another handle on %s", pathOf(again), pathOf(h))
		w.alive(again)
		w.hasEntries("x", 1)
		w.unlock(again)
		w.alive(h)
		w.finish(h)
	})
}

// TestReentryInDoubtThatStays: a reentry into a hold that cannot be confirmed ends when the hold or
// the call's context ends. A later call queues.
func TestReentryInDoubtThatStays(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := newClock(0, 0)
		a, b := w.client("a", lock.WithClock(c.now)), w.client("b")
		h := w.lock(a, "x")
		w.Partition("a")
		c.step(2 * ttl)
		ctx, cancel := context.WithTimeout(h.Context(), grace/2)
		defer cancel()
		mustBe(t, second(a.Mutex("x").Lock(ctx)), context.DeadlineExceeded)
		again := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(h.Context()) })
		<-h.Context().Done()
		mustBe(t, w.outcome(again).err, lock.ErrLost)

		got := w.await(w.queue(w.ctx, b, "x"))
		again = start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(context.WithoutCancel(h.Context())) })
		w.Heal("a")
		time.Sleep(ttl)
		w.waits(again)
		w.alive(got.hold)
		w.unlock(got.hold)
		w.finish(w.await(again).hold)
	})
}

// TestSearchBehindOthers: if the reply to a create is lost, the client finds its entry and enters
// by that entry, although another client has joined behind.
func TestSearchBehindOthers(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		h := w.lock(c, "x")
		hit := w.fault(func(r locktest.Request) bool {
			return r.Label == "a" && joinsParent(r, "x") && w.cutOffSoon("a")
		}, locktest.Fault{Drop: locktest.AfterApply})
		first := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
		w.until("the mishap", hit)
		last := w.queue(w.ctx, b, "x")
		made := w.entries("x")[1].Path
		w.Heal("a")
		time.Sleep(ttl / 2)
		w.hasEntries("x", 3)
		w.unlock(h)
		h = w.await(first).hold
		equal(t, "the entry that has the lock", h.EntryPath(), made)
		w.waits(last)
		w.handOver(h, last)
	})
}
