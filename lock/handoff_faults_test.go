// Handoffs: lost replies, lost entries, outages.

package lock_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestExchangeInDoubt: if the reply to an exchange of entries is lost, the local waiters enter in
// order. If they give up or the client closes, they leave no entry. The other contender never waits
// for a lease, and at the end no entry has to expire.
func TestExchangeInDoubt(t *testing.T) {
	eachMishap(t, "then", []string{"they wait on", "they give up", "the client closes"}, func(w *world, then string, i int) {
		a, b := w.dial("a", riding()), w.dial("b")
		h := w.lock(a, "x")
		ctx, giveUp := context.WithCancel(w.ctx)
		defer giveUp()
		other := w.queue(w.ctx, b, "x")
		time.Sleep(window)
		line := w.line(ctx, a, "x", 2)
		hit := w.mishap(i, "a", func(r locktest.Request) bool { return r.Op == "multi" && leaves(h)(r) && joins(r) })
		begun := time.Now()
		w.unlock(h)
		w.until("the mishap", hit)
		switch then {
		case "they wait on":
			w.inOrder(w.await(other).hold, line...)
		case "they give up":
			giveUp()
		default:
			mustBe(w, a.Close(), nil)
		}
		if then != "they wait on" {
			for _, ch := range line {
				isTrue(w, w.outcome(ch).err != nil, "a waiter that has given up has the lock")
			}
			w.unlock(w.await(other).hold)
		}
		w.until("no entry is left", func() bool { return len(w.entries("x")) == 0 })
		atMost(w, "an entry of no waiter was in the way: it took", time.Since(begun), ttl)
		w.empty()
	})
}

// TestExchangeOfRemovedEntry: if another program deletes or overwrites the entry before the
// exchange, the local waiters enter by another entry, in order.
func TestExchangeOfRemovedEntry(t *testing.T) {
	each(t, "removed", bools, func(w *world, removed bool) {
		a, z := w.dial("a", riding()), w.raw("admin")
		h := w.lock(a, "x")
		time.Sleep(window)
		line := w.line(w.ctx, a, "x", 2)
		hit := w.before(func(r locktest.Request) bool { return r.Label == "a" && leaves(h)(r) }, func() {
			if removed {
				w.remove(z, h.EntryPath())
			} else if _, err := z.Set(h.EntryPath(), []byte("mine"), -1); err != nil {
				w.Error(err)
			}
		})
		w.unlock(h)
		w.until("the unlock", hit)
		if !removed {
			w.waits(line[0])
			w.remove(z, h.EntryPath())
		}
		w.handOver(w.await(line[0]).hold, line[1])
	})
}

// TestTokensRiseAfterTheLastHandoff: tokens still rise after an entry was handed off as often as
// its token can count.
func TestTokensRiseAfterTheLastHandoff(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding())
		h := w.lock(a, "x")
		h.SetPass(math.MaxInt32 - 1)
		w.handOver(h, w.line(w.ctx, a, "x", 3)...)
	})
}

// TestReadersOfHoldInDoubt: several waiting readers are granted one entry, and at that moment a
// step of the wall clock puts the hold in doubt. All of them get a valid hold.
func TestReadersOfHoldInDoubt(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		begun := time.Now()
		var set atomic.Bool
		var forward atomic.Int64
		a := w.dial("a", riding(), lock.WithClock(func() (mono, wall time.Duration) {
			if set.Load() && calledBy("(*placed).grant") && set.Swap(false) {
				forward.Store(int64(2 * ttl))
			}
			d := time.Since(begun)
			return d + time.Hour, d + 1000*time.Hour + time.Duration(forward.Load())
		}))
		writer := w.take(w.dial("b").RWMutex("x").Lock)
		readers := w.callers(w.ctx, 4, a.RWMutex("x").RLock)
		set.Store(true)
		w.unlock(writer)
		time.Sleep(ttl)
		mustBeTrue(t, !set.Load(), "the wall clock was not set")
		held := w.expectEach(readers...)
		for _, h := range held {
			isTrue(w, h.Remaining() > 0, "hold of token %v is in doubt: %v", h.Token(), h.Err())
		}
		w.finish(held...)
	})
}

// TestListenersOfEndedEntriesAreForgotten: after Revoked was called for a hold, the client forgets
// the hold's entry once the entry has ended. This also holds if the entry ends although a local
// waiter is there, or if a reader gives up at the grant.
func TestListenersOfEndedEntriesAreForgotten(t *testing.T) {
	forgotten := func(w *world, a *lock.Client, most int) {
		for range 2 { // a later end removes the records of old ones
			time.Sleep(time.Minute)
			h := w.lock(a, "y")
			h.Revoked()
			w.unlock(h)
		}
		atMost(w, "entries that are remembered", a.Wards(), most)
		w.empty()
	}
	subtest(t, "others wait", locktest.Options{}, func(w *world) {
		a, b := w.dial("a", riding()), w.dial("b")
		for range 10 {
			h := w.lock(a, "x")
			h.Revoked()
			line := w.line(w.ctx, a, "x", 1)
			other := w.queue(w.ctx, b, "x")
			time.Sleep(3 * window)
			w.inOrder(h, other)
			w.unlock(w.await(line[0]).hold)
			settle()
		}
		forgotten(w, a, 1)
	})
	subtest(t, "the reply to its last write is lost", locktest.Options{}, func(w *world) {
		a := w.dial("a", riding())
		for range 3 {
			h := w.lock(a, "x")
			h.Revoked()
			next := w.line(w.ctx, a, "x", 1)[0]
			w.fault(writes("a", h.EntryPath()), locktest.Fault{Delay: window, Drop: locktest.AfterApply})
			go h.Extend(w.ctx, ttl)
			settle()
			w.unlock(h)
			last := w.await(next).hold
			isTrue(w, last.EntryPath() != h.EntryPath(), "the entry was handed on")
			w.unlock(last)
		}
		forgotten(w, a, 1)
	})
	subtest(t, "it is given up as it is granted", locktest.Options{}, func(w *world) {
		var giveUp atomic.Pointer[context.CancelFunc]
		clk := newClock(0, 0)
		a := w.dial("a", riding(), lock.WithClock(func() (time.Duration, time.Duration) {
			if f := giveUp.Load(); f != nil && calledBy("(*placed).serve") && giveUp.CompareAndSwap(f, nil) {
				(*f)()
			}
			return clk.now()
		}))
		b := w.dial("b")
		w.unlock(w.lock(a, "other"))
		canceled := 0
		for range 20 {
			theirs := w.take(b.RWMutex("x").Lock)
			ctx, cancel := context.WithCancel(w.ctx)
			var readers []<-chan taken
			for _, ctx := range []context.Context{w.ctx, ctx} {
				readers = append(readers, start(func() (*lock.Hold, error) {
					h, err := a.RWMutex("x").RLock(ctx)
					if err == nil {
						h.Revoked()
						w.unlock(h)
					}
					return h, err
				}))
				settle()
			}
			giveUp.Store(&cancel)
			w.unlock(theirs)
			mustBe(w, (<-readers[0]).err, nil)
			if got := <-readers[1]; got.err != nil { // this reader gave up before it entered
				mustBe(w, got.err, context.Canceled)
				canceled++
			}
			time.Sleep(time.Second)
		}
		isTrue(w, canceled != 0, "none has given up as it was granted")
		forgotten(w, a, 1)
	})
}

// TestAttachedEntryIsNotDeleted: another client attaches to the entry of a waiter that cannot write it. The
// waiter deletes nothing, and queues. No client issues a ticket for such an entry, so the test forges one.
func TestAttachedEntryIsNotDeleted(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		before := w.lock(b, "x")
		next := w.queue(w.ctx, a, "x")
		entry := w.entries("x")[1].Path
		w.faults(writes("a", entry), locktest.Fault{Code: codeThrottled})
		time.Sleep(ttl * 6 / 10)
		w.unlock(before) // less than half of the waiter's lease is left: it must write the entry before it enters
		w.waits(next)
		theirs := w.attach(b, w.forged("x", "mutex", entry))
		ended := w.end(theirs)
		third := w.queue(w.ctx, c, "x")
		w.Intercept(nil)
		time.Sleep(ttl)
		_, there := w.Node(theirs.EntryPath())
		mustBeTrue(t, there && theirs.Remaining() != 0, "the attached entry is there: %v, its hold: %v", there, theirs.Err())
		w.waits(third, next)
		w.unlock(theirs)
		got := <-third
		w.inTurn(ended, got)
		w.unlock(got.hold)
		w.unlock((<-next).hold)
	})
}

// TestExchangeInDoubtTwice: if two attempts at an exchange are in doubt and the first one was
// applied, the waiter enters within half a TTL, by the lock's only entry.
func TestExchangeInDoubtTwice(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x")
		waiting := w.line(w.ctx, a, "x", 1)
		var n atomic.Int32
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label != "a" || !exchanges(r, h) {
				return locktest.Fault{}
			}
			switch n.Add(1) {
			case 1:
				return locktest.Fault{Drop: locktest.AfterApply}
			case 2:
				return locktest.Fault{Drop: locktest.BeforeApply}
			}
			return locktest.Fault{}
		})
		w.unlock(h)
		begun := time.Now()
		next := w.await(waiting[0])
		isTrue(t, n.Load() >= 3, "%d attempts", n.Load())
		atMost(w, "the next one has the lock after", next.at.Sub(begun), ttl/2)
		w.sole(next.hold)
		w.finish(next.hold)
	})
}

// exchanges reports whether the request exchanges the hold's entry for a new one.
func exchanges(r locktest.Request, h *lock.Hold) bool {
	return r.Op == "multi" && r.Paths[0] == h.EntryPath() && slices.ContainsFunc(r.Paths, func(p string) bool { return strings.HasSuffix(p, "-lock-") })
}

// TestExchangeGivenUp: if the waiter gives up while its client cannot find out the outcome of the
// exchange, no node is left.
func TestExchangeGivenUp(t *testing.T) {
	each(t, "applied", []locktest.Drop{locktest.BeforeApply, locktest.AfterApply}, func(w *world, applied locktest.Drop) {
		a := w.dial("a")
		h := w.lock(a, "x")
		ctx, cancel := context.WithCancel(w.ctx)
		ch := w.callers(ctx, 1, a.Mutex("x").Lock)[0]
		hit := w.fault(func(r locktest.Request) bool { return exchanges(r, h) && w.cutOffSoon("a") }, locktest.Fault{Drop: applied})
		w.unlock(h)
		w.until("the mishap", hit)
		cancel()
		<-ch
		time.Sleep(time.Second)
		w.Heal("a")
		time.Sleep(ttl / 2)
		w.hasEntries("x", 0)
		w.empty()
	})
}

// TestLostEntryWithLocalWaiters: if a hold with a local waiter is lost, the waiter enters at most
// 20 ms after the hold has ended.
func TestLostEntryWithLocalWaiters(t *testing.T) {
	each(t, "extended", bools, func(w *world, extended bool) {
		a, z := w.client("a"), w.raw("other")
		h := w.lock(a, "x")
		ended := w.end(h)
		ch := start(func() (*lock.Hold, error) {
			next, err := a.Mutex("x").Lock(w.ctx)
			isTrue(w, h.Err() != nil, "the next one has the lock beside the hold whose entry was deleted")
			return next, err
		})
		settle()
		w.remove(z, h.EntryPath())
		if extended { // the hold is lost before its waiter has joined behind it
			isTrue(w, h.Extend(w.ctx, 2*ttl) != nil, "a hold without an entry was extended")
		}
		next := w.await(ch)
		atMost(w, "the next one has the lock after", next.at.Sub(ended.wait()), 20*time.Millisecond)
		w.finish(next.hold)
	})
}

// TestUnwantedJoinTellsNoWaiter: if one of two waiters that join gives up, its join ends, and the other
// waiter does not get the error of that join.
func TestUnwantedJoinTellsNoWaiter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		acquire := func(ctx context.Context, c *lock.Client) <-chan taken {
			return start(func() (*lock.Hold, error) { return c.Semaphore("x", 4).Acquire(ctx, 1) })
		}
		others := []*lock.Hold{w.await(acquire(w.ctx, b)).hold, w.await(acquire(w.ctx, a)).hold} // a lists, and keeps its place
		settle()
		w.Partition("a")
		settle()
		ctx, giveUp := context.WithCancel(w.ctx)
		first, second := acquire(ctx, a), acquire(w.ctx, a)
		settle()
		giveUp()
		mustBe(w, w.outcome(first).err, context.Canceled)
		w.waits(second)
		w.Heal("a")
		w.unlock(w.await(second).hold)
		w.unlock(others...)
	})
}
