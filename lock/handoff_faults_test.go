// Handoffs and cached leases: lost replies, lost entries, outages.

package lock_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestExchangeInDoubt: if the reply to an exchange of entries is lost, the local waiters enter in
// order, without waiting for a lease. If they give up or the client closes, no node is left.
func TestExchangeInDoubt(t *testing.T) {
	eachMishap(t, "then", []string{"they wait on", "they give up", "the client closes"}, func(w *world, then string, i int) {
		a, b := w.dial("a", riding(0)), w.dial("b")
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
			atMost(w, "an entry of no waiter is in the way: it took", time.Since(begun), ttl)
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
		w.empty()
	})
}

// TestExchangeOfRemovedEntry: if another program deletes or overwrites the entry before the
// exchange, the local waiters enter by another entry, in order.
func TestExchangeOfRemovedEntry(t *testing.T) {
	each(t, "removed", bools, func(w *world, removed bool) {
		a, z := w.dial("a", riding(0)), w.raw("admin")
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

// TestCachedLeaseIsPurged: if another client has purged the entry of a cached lease, Lock queues
// again and TryLock returns ErrHeld. The next cached lease is released as usual.
func TestCachedLeaseIsPurged(t *testing.T) {
	each(t, "try", bools, func(w *world, try bool) {
		a, b := w.dial("a", riding(time.Hour)), w.dial("b")
		w.unlock(w.lock(a, "x"))
		w.kill("a")
		other := w.lock(b, "x")
		take := a.Mutex("x").Lock
		if try {
			take = a.Mutex("x").TryLock
		}
		next := w.callers(w.ctx, 1, take)[0]
		w.Heal("a")
		time.Sleep(ttl)
		if try {
			mustBe(w, w.outcome(next).err, lock.ErrHeld)
			w.unlock(other)
			next = w.line(w.ctx, a, "x", 1)[0]
		} else {
			w.unlock(other)
		}
		h := w.await(next).hold
		w.alive(h)
		waiting := w.queue(w.ctx, b, "x")
		w.unlock(w.pass(h, waiting))
		w.unlock(w.lock(a, "x"))
		mustBe(w, a.Close(), nil)
		w.empty()
	})
}

// TestGiveUpWhileACachedLeaseIsReleased: if a call makes its client release a cached lease, and
// gives up while one of the requests is in flight, no node is left.
func TestGiveUpWhileACachedLeaseIsReleased(t *testing.T) {
	for k := range 3 {
		subtest(t, fmt.Sprint("k ", k), locktest.Options{}, func(w *world) {
			a, b := w.dial("a", riding(time.Hour)), w.dial("b")
			h := w.lock(b, "x")
			ch := w.queue(w.ctx, a, "x")
			w.unlock(h)
			w.unlock(w.expect(ch).hold) // other contenders were there, so the leave takes several requests
			seen := -1
			hit := w.fault(func(r locktest.Request) bool {
				if r.Label == "a" {
					seen++
				}
				return r.Label == "a" && seen == k
			}, locktest.Fault{Delay: time.Second})
			ctx := w.limited(time.Second / 2)
			mustBe(w, second(a.All([]string{"w", "x"}).TryLock(ctx)), context.DeadlineExceeded)
			w.until("hit", hit)
			time.Sleep(3 * time.Second)
			w.empty()
		})
	}
}

// TestCachedLeaseIsOverwritten: if another program overwrites the entry of a cached lease, the
// client does not use or delete it. If the entry is force-released, the client deletes it.
func TestCachedLeaseIsOverwritten(t *testing.T) {
	subtest(t, "by another program", locktest.Options{}, func(w *world) {
		const idle = 3 * ttl
		a, z := w.dial("a", riding(idle)), w.raw("admin")
		w.unlock(w.lock(a, "x"))
		time.Sleep(idle / 2) // the next check of the cached lease is at its idle limit
		h := w.lock(a, "x")
		time.Sleep(idle * 3 / 4)
		w.unlock(h)
		w.set(z, h.EntryPath(), []byte("mine"))
		time.Sleep(2 * idle)
		w.remove(z, h.EntryPath())
		w.finish(w.lock(a, "x", lock.WithIdle(0)))
	})
	subtest(t, "force-released", locktest.Options{}, func(w *world) {
		a, c := w.dial("a", riding(time.Hour)), w.dial("c")
		h := w.lock(a, "x")
		w.unlock(h)
		settle()
		begun := time.Now()
		mustBe(w, w.breaks(c, h.EntryPath()).Wait(w.ctx, terms), nil)
		atMost(w, "it has gone after", time.Since(begun), ttl/2)
		w.finish(w.lock(a, "x", lock.WithIdle(0)))
	})
}

// TestTokensRiseAfterTheLastHandoff: tokens still rise after an entry was handed off as often as
// its token can count.
func TestTokensRiseAfterTheLastHandoff(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", riding(0))
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
		a := w.dial("a", riding(0), lock.WithClock(func() (mono, wall time.Duration) {
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
		a, b := w.dial("a", riding(0)), w.dial("b")
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
		a := w.dial("a", riding(0))
		for range 3 {
			h := w.lock(a, "x")
			h.Revoked()
			next := w.line(w.ctx, a, "x", 1)[0]
			w.looked("a")
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
		a := w.dial("a", riding(0), lock.WithClock(func() (time.Duration, time.Duration) {
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

// TestAttachedEntryIsNotDeleted: another client has attached to the entry of a cached lease that
// has ended. A goroutine that takes the cached lease deletes nothing, and queues. The client issues
// no ticket for an entry that it hands off, so the test forges one.
func TestAttachedEntryIsNotDeleted(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a", riding(time.Hour)), w.dial("b"), w.dial("c")
		h := w.lock(a, "x")
		text := fmt.Sprintf("holdfast-ticket:1:mutex:/locks:%s:%s:0:0", h.Name(), path.Base(h.EntryPath()))
		ticket, err := lock.ParseTicket(fmt.Sprintf("%s:%08x", text, crc32.ChecksumIEEE([]byte(text))))
		w.ok(err)
		w.unlock(h)
		w.kill("a")
		time.Sleep(ttl * 3 / 4)                                                       // at most half of the lease is left
		next := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) }) // takes the cached lease
		theirs := w.attach(b, ticket)
		ended := w.end(theirs)
		third := w.queue(w.ctx, c, "x")
		w.Heal("a")
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
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.client("a"), w.raw("other")
		h := w.lock(a, "x")
		ended := w.end(h)
		ch := w.line(w.ctx, a, "x", 1)[0]
		w.remove(z, h.EntryPath())
		next := w.await(ch)
		w.inTurn(ended, next)
		atMost(t, "the next one has the lock after", next.at.Sub(ended.wait()), 20*time.Millisecond)
		w.finish(next.hold)
	})
}
