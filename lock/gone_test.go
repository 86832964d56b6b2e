package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func (w *world) remove(z *zk.Conn, paths ...string) {
	w.Helper()
	for _, p := range paths {
		if err := z.Delete(p, -1); err != nil {
			w.Fatalf("delete %s: %v", p, err)
		}
	}
}

// TestWaiterWhoseEntryIsGoneQueuesAgain at the end, and waits no longer than a
// renewal takes to notice.
func TestWaiterWhoseEntryIsGoneQueuesAgain(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		h := w.lock(a, "x")
		second, third := w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")
		gone := w.entries("x")[1].Path
		w.remove(w.raw("admin"), gone)
		time.Sleep(ttl/3 + ttl/10)
		entries := paths(w.entries("x"))
		if len(entries) != 3 || entries[2] == gone {
			t.Fatalf("entries %q, want a new one at the end", entries)
		}
		if s := b.Stats(); s.Requeued != 1 || s.Lost != 0 || s.Waiters != 1 {
			t.Errorf("stats %+v", s)
		}
		mustSay(t, errors.New(w.logged()), "lost the place in the queue", "own entry is gone", gone)
		w.waits(second)
		w.waits(third)
		w.unlock(h)
		w.waits(second)
		w.unlock(w.expect(third).hold)
		got := w.expect(second)
		if got.hold.EntryPath() != entries[2] {
			t.Errorf("has it by %s, want %s", got.hold.EntryPath(), entries[2])
		}
		w.unlock(got.hold)
		w.empty()
	})
}

// TestWholeLockDeleted under a holder and waiters, by somebody who thinks that it
// helps: whose entry is gone learns of it with the next renewal, and those who
// still wait start over.
func TestWholeLockDeleted(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		h := w.lock(a, "x")
		first, second := w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")
		z := w.raw("admin")
		entries := paths(w.entries("x"))
		slices.Reverse(entries) // so that who is told that the one ahead has gone has lost its own already
		w.remove(z, entries...)
		w.remove(z, "/locks/x")
		time.Sleep(ttl / 2)
		mustBe(t, h.Err(), lock.ErrLost, lock.ErrRemoved)
		// The first waiter knew itself next and its entry fresh; who deletes that
		// cannot be guarded against. It learns of it at once.
		got := w.expect(first).hold
		mustBe(t, got.Err(), lock.ErrLost, lock.ErrRemoved)
		next := w.expect(second).hold
		w.sole(next)
		if n := c.Stats().Requeued; n != 1 {
			t.Errorf("queued again %d times", n)
		}
		w.unlock(next)
		w.empty()
	})
}

// TestReappearingEntryIsDeleted: an entry that was taken for gone comes back, as a
// create that was applied late does.
func TestReappearingEntryIsDeleted(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		z := w.raw("admin")
		old := w.entries("x")[1]
		w.remove(z, old.Path)
		w.until("it queues again", func() bool { return b.Stats().Requeued == 1 && len(w.entries("x")) == 2 })
		if _, err := z.Create(old.Path, old.Data, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Mutex("x").TryLock(w.ctx); !errors.Is(err, lock.ErrHeld) { // lists
			t.Error(err)
		}
		w.until("it is deleted", func() bool { return len(w.entries("x")) == 2 })
		w.unlock(h)
		w.unlock(w.expect(ch).hold)
		w.empty()
	})
}

// TestOverwrittenWaiterQueuesAgain: what stands in its entry is not its own any
// more, so nobody would know who waits there.
func TestOverwrittenWaiterQueuesAgain(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		if _, err := w.raw("admin").Set(w.entries("x")[1].Path, znode.Parent{Kind: znode.Dir}.Encode(), -1); err != nil {
			t.Fatal(err)
		}
		w.until("it queues again", func() bool { return b.Stats().Requeued == 1 })
		w.waits(ch)
		w.unlock(h)
		w.unlock(w.await(ch).hold)
		w.empty()
	})
}

// TestGiveUpAfterOwnEntryIsGone: a waiter's entry is removed, and its caller gives up
// before the waiter has noticed. The client does not go on counting that entry: the
// lock's parent is deleted by whoever leaves last.
func TestGiveUpAfterOwnEntryIsGone(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		b, c, z := w.dial("b"), w.dial("c"), w.raw("admin")
		h := w.lock(b, "x")
		ctx, giveUp := context.WithCancel(w.ctx)
		var paused atomic.Bool // the waiter is to be, when it looks at its clock
		var own string
		begun := time.Now()
		a := w.dial("a", lock.WithClock(func() (mono, wall time.Duration) {
			if paused.CompareAndSwap(true, false) {
				w.remove(z, own)
				time.Sleep(ttl) // its renewal finds out
				giveUp()
			}
			return time.Since(begun), time.Since(begun)
		}))
		w.unlock(w.lock(a, "y"))
		ahead, leave := context.WithCancel(w.ctx)
		w.queue(ahead, c, "x")
		ch := w.queue(ctx, a, "x")
		own = w.entries("x")[2].Path
		paused.Store(true)
		leave()
		got := <-ch
		mustBe(w, got.err, context.Canceled)
		w.unlock(h)
		w.empty()
		w.unlock(w.lock(a, "x"))
		w.empty()
	})
}

// TestParentOfAnEntryThatIsGone: who finds its hold's entry removed was the last one
// there, and sees to the parent: when a renewal tells, and when Unlock does.
func TestParentOfAnEntryThatIsGone(t *testing.T) {
	for _, renewed := range []bool{true, false} {
		simulate(t, locktest.Options{}, func(w *world) {
			a := w.dial("a")
			h := w.lock(a, "x")
			w.remove(w.raw("admin"), h.EntryPath())
			if renewed {
				w.end(h).wait()
			}
			mustBe(w, h.Unlock(), lock.ErrRemoved)
			w.empty()
		})
	}
}
