// Two clients act at the same moment: purge, TryLock, Unlock, delete.

package lock_test

import (
	"errors"
	"math"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestLatePurge: if the holder's entry is written or deleted between the read that showed it
// expired and the purge, the purge deletes only the version that was judged. A written entry blocks
// for a TTL and the grace from that write.
func TestLatePurge(t *testing.T) {
	for _, tt := range []struct {
		name    string
		removed bool
		at      func(h *lock.Hold) func(locktest.Request) bool
		delay   time.Duration
	}{
		{"written before the delete", false, leaves, 0},
		{"written before the list", false, func(*lock.Hold) func(locktest.Request) bool {
			return func(r locktest.Request) bool { return r.Op == "getChildren2" }
		}, 100 * time.Millisecond},
		{"deleted before the delete", true, leaves, 0},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			a, b, z := w.dial("a"), w.dial("b"), w.raw("other")
			h := w.lock(a, "x")
			ch := w.queue(w.ctx, b, "x")
			d := w.die("a", h.EntryPath())
			late := tt.at(h)
			hit := w.fault(func(r locktest.Request) bool {
				if r.Label != "b" || !late(r) {
					return false
				}
				if tt.removed {
					w.remove(z, h.EntryPath())
				} else {
					w.set(z, h.EntryPath(), w.node(h.EntryPath()).Data)
				}
				return true
			}, locktest.Fault{Delay: tt.delay})
			w.until("the purge", hit)
			if at := time.Now(); at.Sub(time.UnixMilli(d.end)) < grace {
				w.Errorf("purged at %v", at)
			}
			if tt.removed {
				h := w.await(ch).hold
				equal(w, "purged", b.Stats().Purged, 0)
				w.unlock(h)
				return
			}
			renewed := dead{h.EntryPath(), w.node(h.EntryPath()).Stat.Mtime + ttl.Milliseconds()}
			got := w.await(ch)
			w.purged(renewed, got.at, 0, 20*time.Millisecond)
			w.unlock(got.hold)
		})
	}
}

// TestTryLockThatLearnsTheTimeSlowly: TryLock learns the ensemble's time only after the lease that
// it has read must have ended. The holder has renewed meanwhile, so TryLock returns ErrHeld and
// writes no entry.
func TestTryLockThatLearnsTheTimeSlowly(t *testing.T) {
	simulate(t, locktest.Options{Members: 3}, func(w *world) {
		const brief = time.Second
		h := w.lock(w.dial("a"), "x", lock.WithTTL(brief))
		b := w.dial("b")
		w.elect(0) // the new leader has another clock
		time.Sleep(brief)
		var asked, joined atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			switch {
			case r.Label != "b" || r.Op != "multi":
			case joins(r):
				joined.Store(true)
			case !asked.Swap(true):
				return locktest.Fault{DelayReply: 2*brief + grace}
			}
			return locktest.Fault{}
		})
		mustBe(t, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		isTrue(t, asked.Load() && !joined.Load(), "it asked for the time: %v, and joined: %v", asked.Load(), joined.Load())
		w.sole(h)
		w.unlock(h)
	})
}

// TestTryLockThatLosesTheRace: if another client locks between the list and the join of a TryLock,
// TryLock returns ErrHeld, and its entry is deleted.
func TestTryLockThatLosesTheRace(t *testing.T) {
	each(t, "prior", []string{"nothing", "a parent", "an expired entry", "the end of the counter"}, func(w *world, prior string) {
		p := lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: prior != "nothing"})
		a, b := w.dial("a", p), w.dial("b", p)
		if prior != "nothing" {
			w.unlock(w.lock(a, "x"))
		}
		if prior == "an expired entry" {
			w.lock(w.dial("dead"), "x")
			w.kill("dead")
			time.Sleep(3 * ttl)
		}
		var h *lock.Hold
		w.before(func(r locktest.Request) bool { return r.Label == "b" && joins(r) }, func() {
			if prior == "the end of the counter" {
				mustBe(w, w.SetSequence("/locks/x", math.MaxInt32), nil)
			}
			h = w.lock(a, "x")
		})
		mustBe(w, second(b.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		w.sole(h)
		w.unlock(h)
	})
}

// TestTryAsTheNumberIsLowered: if a Resize leaves too few permits between the list and the join of a
// TryAcquire, the error names the lock, and not the try's own entry.
func TestTryAsTheNumberIsLowered(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		lowers, tries := w.sem("a", 3), w.sem("b", 3)
		w.before(func(r locktest.Request) bool { return r.Label == "b" && joins(r) }, func() { w.ok(lowers.Resize(w.ctx, 2)) })
		var held *lock.HeldError
		err := second(tries.TryAcquire(w.ctx, 3))
		isTrue(w, errors.As(err, &held) && held.Entry == "/locks/x", "%v", err)
	})
}

// TestUnlockOfADeletedEntry: if a hold's entry was deleted or overwritten, Unlock returns
// ErrRemoved or ErrTaken, and does not change the entry.
func TestUnlockOfADeletedEntry(t *testing.T) {
	each(t, "kept", bools, func(w *world, kept bool) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: kept}))
		z := w.raw("other")
		h := w.lock(a, "x")
		w.remove(z, h.EntryPath())
		mustBe(w, h.Unlock(), lock.ErrLost, lock.ErrRemoved)
		mustBe(w, h.Unlock(), lock.ErrUnlocked)

		h = w.lock(a, "y")
		w.set(z, h.EntryPath(), []byte("mine"))
		err := h.Unlock()
		mustBe(w, err, lock.ErrLost, lock.ErrTaken)
		var lost *lock.LostError
		isTrue(w, errors.As(err, &lost) && lost.Lock == "y" && lost.Entry == h.EntryPath(), "%#v", err)
		time.Sleep(3 * ttl)
		equal(w, "data", string(w.node(h.EntryPath()).Data), "mine")
	})
}

// TestLateDeleteHitsNoOtherEntry: a holder reconnects after its entry was purged and its lock was
// deleted and recreated. Another client's entry has the same sequence. The holder's late delete
// does not delete that entry.
func TestLateDeleteHitsNoOtherEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		old := w.lock(a, "x")
		d := w.die("a", old.EntryPath())
		got := w.await(w.queue(w.ctx, b, "x"))
		w.purged(d, got.at, 0, ttl)
		w.finish(got.hold)

		h := w.lock(b, "x")
		was, _ := znode.Parse(path.Base(old.EntryPath()))
		is, _ := znode.Parse(path.Base(h.EntryPath()))
		mustBeTrue(t, is.Seq == was.Seq, "entries %s and %s: the sequence did not start anew", old.EntryPath(), h.EntryPath())
		hit := w.fault(func(r locktest.Request) bool { return mutates(r, "a") }, locktest.Fault{})
		w.Heal("a")
		mustBe(t, old.Unlock(), lock.ErrLost)
		w.until("its late delete", hit)
		w.sole(h)
		w.finish(h)
	})
}

// TestOverwrittenEntry: another client writes a hold's entry, even with the same bytes, or after a
// renewal whose reply was lost. Then the entry can be read, cannot be read at first, or is deleted.
// The hold ends, and the write does not count as a renewal.
func TestOverwrittenEntry(t *testing.T) {
	for _, tt := range []struct {
		name    string
		inDoubt bool
		code    int32 // error code of the first read
		want    error
	}{
		{"read", false, 0, lock.ErrTaken}, {"not read at first", false, codeNoAuth, lock.ErrTaken},
		{"gone", false, codeNoNode, lock.ErrRemoved}, {"renewal in doubt", true, 0, lock.ErrTaken},
	} {
		subtest(t, tt.name, locktest.Options{}, func(w *world) {
			a, z := w.dial("a"), w.raw("other")
			h := w.lock(a, "x")
			ended, data := w.end(h), w.node(h.EntryPath()).Data
			if tt.inDoubt {
				w.until("a renewal", w.fault(func(r locktest.Request) bool { return writes("a", h.EntryPath())(r) && w.cutOff("a") }, locktest.Fault{Drop: locktest.AfterApply}))
				data = []byte("of another")
			}
			w.set(z, h.EntryPath(), data)
			w.fault(func(r locktest.Request) bool { return r.Label == "a" && r.Op == "getData" && touches(r, h.EntryPath()) }, locktest.Fault{Code: tt.code})
			w.Heal("a")
			begun := time.Now()
			atMost(w, "the hold ended after", ended.wait().Sub(begun), ttl)
			mustBe(w, h.Err(), lock.ErrLost, tt.want)
			equal(w, "renewals", a.Stats().Renewals, 0)
		})
	}
}

// TestOrphansAreForgotten: a client forgets an orphaned create within 61 minutes.
func TestOrphansAreForgotten(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		minute := lock.WithPolicies(policies{TTL: time.Minute, Grace: grace})
		a, z := w.dial("a", minute), w.raw("other")
		h := w.lock(w.dial("b", minute), "x")
		ch := w.queue(w.ctx, a, "x")
		for range 2 {
			n := a.Stats().Requeued
			w.remove(z, w.entries("x")[1].Path)
			w.until("it queues again", func() bool { return a.Stats().Requeued > n && len(w.entries("x")) == 2 })
			equal(w, "strays are remembered", a.Orphans(), 1)
			time.Sleep(61 * time.Minute)
		}
		w.finish(w.pass(h, ch))
	})
}
