// Goroutines of one client share an entry in the queue: handoffs, readers, lost replies and entries.

package lock_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// The goroutines of one client with equal requests share one entry in the lock's queue; see package
// place. The tests of this file check that with the default window.

// TestHandoffSendsNoRequest: the next waiter of the same client gets the entry without a request,
// in order of arrival, and has its own hold.
func TestHandoffSendsNoRequest(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		h := w.lock(a, "x")
		want := h.Token().Parts()
		line := w.line(w.ctx, a, "x", 8)
		entry := h.EntryPath()
		w.wantCost("eight handoffs", w.cost("a", func() {
			for _, next := range line {
				before, left := h, h.Remaining()
				h = w.pass(h, next)
				isTrue(t, h.Remaining() <= left, "the lease has begun anew: %v are left, were %v", h.Remaining(), left)
				mustBe(t, before.Err(), lock.ErrUnlocked)
				isTrue(t, before.Context().Err() != nil && h.Token().Compare(before.Token()) > 0, "the hold before goes on, or token %v follows %v", h.Token(), before.Token())
				equal(t, "held by the entry", h.EntryPath(), entry)
				w.alive(h)
			}
		}), map[string]int{}, 0)
		want.Pass = 8
		equal(t, "token after eight handoffs", h.Token().Parts(), want)
		other := w.queue(w.ctx, a, "x", lock.WithLocalWindow(lock.NoLocalWindow))
		w.finish(w.pass(h, other))
	})
}

// TestWindowOnALaggingServer: an entry is unlocked while a write of it is in flight, and the server answers
// seconds later. Other clients wait for the window, and not for the answer.
func TestWindowOnALaggingServer(t *testing.T) {
	ensemble := slow
	ensemble.Members = 3
	simulate(t, ensemble, func(w *world) {
		follower := w.followers()[0]
		a, b := w.dialAt("a", []string{follower}, usual), w.dialAt("b", []string{w.Leader()}, usual)
		first := w.lock(b, "x")
		ch := w.queue(w.ctx, a, "x")
		time.Sleep(window)
		w.unlock(first)
		h, granted := w.await(ch).hold, time.Now()
		w.ok(w.Lag(follower, 3*time.Second))
		line := w.line(w.ctx, a, "x", 1)
		other := w.queue(w.ctx, b, "x")
		time.Sleep(time.Millisecond) // until the grant is on its way into the record
		w.unlock(h)
		got := w.await(other)
		atMost(w, "the other client waited for", got.at.Sub(granted), window+5*time.Millisecond)
		w.ok(w.Lag(follower, 0))
		w.handOver(got.hold, line...)
	})
}

// TestEntryOfAServedWaiterIsDeleted: a local waiter joins behind another client, and then gets a
// permit by a handoff. Its own entry is deleted, so a later goroutine cannot use it to get ahead of
// another client.
func TestEntryOfAServedWaiterIsDeleted(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: time.Second}))
		b, c := w.dial("b"), w.dial("c")
		h, theirs := w.take(permits(a.Semaphore("x", 2), 1)), w.take(permits(b.Semaphore("x", 2), 1))
		local := w.join("x", permits(a.Semaphore("x", 2), 1))
		w.hasEntries("x", 3)
		h = w.pass(h, local)
		w.hasEntries("x", 2)
		third := w.join("x", permits(c.Semaphore("x", 2), 1))
		time.Sleep(time.Second) // the window ends
		fourth := w.callers(w.ctx, 1, permits(a.Semaphore("x", 2), 1))[0]
		h = w.pass(h, third)
		w.waits(fourth)
		w.unlock(theirs)
		w.finish(h, w.await(fourth).hold)
	})
}

// TestUnlockAfterTheWindow: after the window, one transaction deletes the entry and creates the
// next one. A waiting client enters before the local waiters.
func TestUnlockAfterTheWindow(t *testing.T) {
	each(t, "without a window of its own", bools, func(w *world, without bool) {
		opt := map[bool]lock.LockOption{true: lock.WithLocalWindow(lock.NoLocalWindow)}[without]
		a, b := w.client("a"), w.dial("b")
		first := w.lock(b, "x")
		h := w.pass(first, w.queue(w.ctx, a, "x", opt)) // a knows that other clients use the lock
		other := w.queue(w.ctx, b, "x")
		time.Sleep(window)
		line := w.line(w.ctx, a, "x", 2, opt)
		got := w.cost("a", func() { w.unlock(h) })
		n := len(w.entries("x"))
		isTrue(w, n == 2 && got.requests["multi"] == 1 && got.requests["delete"] == 0, "%d entries, and it took %v; want one transaction", n, got.requests)
		w.handOver(w.expect(other).hold, line...)
	})
}

// ends are the ways in which a hold ends without a handoff: other than by Unlock, or with an entry
// that does not fit the next request.
var ends = map[string]func(*world, *lock.Hold){
	"extended": func(w *world, h *lock.Hold) {
		w.ok(h.Extend(w.ctx, 2*ttl))
		w.unlock(h)
	},
	"removed": func(w *world, h *lock.Hold) {
		w.remove(w.raw("admin"), h.EntryPath())
		<-h.Context().Done()
	},
	"removed, and unlocked before that was heard of": func(w *world, h *lock.Hold) {
		w.remove(w.raw("admin"), h.EntryPath())
		isTrue(w, h.Extend(w.ctx, ttl) != nil, "extended an entry that is not there")
		mustBe(w, h.Unlock(), lock.ErrRemoved)
	},
	"detached": func(w *world, h *lock.Hold) {
		w.unlock(w.attach(w.dial("attaches"), w.detach(h, 0)))
	},
	"max_hold": func(w *world, h *lock.Hold) {
		<-h.Context().Done()
		mustBe(w, h.Err(), lock.ErrMaxHold)
	},
	"a ticket": func(w *world, h *lock.Hold) {
		w.ticket(h)
		w.unlock(h)
	},
}

// TestNoHandoffAfterOtherEnds: after a hold that ends without a handoff, local waiters enter by
// another entry. The client created that entry while the hold lasted, behind clients that joined
// before the local waiters, and ahead of clients that joined a second later. If the hold was lost, the next
// waiter enters within 20 ms.
func TestNoHandoffAfterOtherEnds(t *testing.T) {
	for name, end := range ends {
		each(t, name+", others", bools, func(w *world, others bool) {
			a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: window, MaxHold: ttl}))
			h := w.lock(a, "x")
			queue := w.line(w.ctx, a, "x", 2)
			if others {
				queue = append([]<-chan taken{w.queue(w.ctx, w.dial("b"), "x")}, queue...)
				time.Sleep(time.Second)
				queue = append(queue, w.queue(w.ctx, w.dial("c"), "x"))
			}
			ended, entry := w.end(h), h.EntryPath()
			end(w, h)
			next := w.await(queue[0])
			if !strings.HasPrefix(name, "removed") { // a removed hold may overlap with the next one
				w.inTurn(ended, next)
			} else if !others {
				atMost(w, "the next one has the lock after the end", next.at.Sub(ended.wait()), 20*time.Millisecond)
			}
			isTrue(w, next.hold.EntryPath() != entry, "the next one has the same entry")
			w.alive(next.hold)
			w.handOver(next.hold, queue[1:]...)
		})
	}
}

// TestEndedHoldIsNotEnteredAgain: the context of an ended hold does not reenter, although the entry
// continues with another hold. The ended hold issues no ticket. max_hold applies to each hold of the entry
// separately.
func TestEndedHoldIsNotEnteredAgain(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const late = 900 * time.Millisecond
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: time.Second, MaxHold: ttl}))
		before := w.lock(a, "x")
		line := w.line(w.ctx, a, "x", 1)
		time.Sleep(late)
		h := w.pass(before, line[0])
		equal(t, "handoffs", h.Token().Parts().Pass, 1)
		again := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(before.Context()) })
		mustBe(t, w.outcome(again).err, lock.ErrUnlocked)
		mustBe(t, before.Unlock(), lock.ErrUnlocked)
		mustBe(t, before.Extend(w.ctx, ttl), lock.ErrUnlocked)
		equal(t, "what remains of the hold before", before.Remaining(), 0)
		ticket, err := before.Ticket()
		isTrue(t, errors.Is(err, lock.ErrUnlocked) && ticket.IsZero(), "ticket %v, %v", ticket, err)
		equal(t, "entry of the next hold", h.EntryPath(), before.EntryPath())
		time.Sleep(ttl - late/2)
		w.alive(h)
		time.Sleep(late)
		mustBe(t, h.Err(), lock.ErrMaxHold)
	})
}

// TestReadersShareAnEntry: readers of one client within the window share an entry, and each has its
// own hold. A reader after the window waits behind a waiting writer.
func TestReadersShareAnEntry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.dial("b")
		rw := a.RWMutex("x")
		read := func(i int) <-chan taken {
			return start(func() (*lock.Hold, error) { return rw.RLock(context.WithValue(w.ctx, key{}, i)) })
		}
		first := w.expect(read(0)).hold
		held := []*lock.Hold{first}
		w.wantCost("nine more", w.cost("a", func() {
			for i := range 9 {
				held = append(held, w.expect(read(1+i)).hold)
			}
		}), map[string]int{}, 0)
		tokens := map[lock.Token]bool{}
		for i, h := range held {
			w.alive(h)
			tokens[h.Token()] = true
			got := h.Context().Value(key{})
			isTrue(t, got == i, "the context of reader %d carries %v", i, got)
		}
		equal(t, "tokens", len(tokens), len(held))
		w.unlock(held[9])
		mustBe(t, second(held[9].Ticket()), lock.ErrUnlocked)
		if held[9] = w.expect(read(9)).hold; held[9].EntryPath() != first.EntryPath() {
			t.Errorf("a reader within the window has an entry of its own, %s", held[9].EntryPath())
		}
		writer := w.join("x", b.RWMutex("x").Lock)
		time.Sleep(2 * window)
		late := read(10)
		w.waits(late)

		w.unlock(first)
		isTrue(t, first.Remaining() <= 0 && first.Context().Err() != nil && errors.Is(first.Err(), lock.ErrUnlocked), "the first one, unlocked: %v", first.Err())
		w.alive(held[1:]...)
		// The context of an ended hold does not reenter. The context of another hold does.
		anew := start(func() (*lock.Hold, error) { return rw.RLock(context.WithoutCancel(first.Context())) })
		w.waits(anew)
		again := w.expect(start(func() (*lock.Hold, error) { return rw.RLock(held[1].Context()) })).hold
		w.unlock(held[1])
		w.alive(again)
		mustBe(t, w.outcome(start(func() (*lock.Hold, error) { return rw.Lock(held[2].Context()) })).err, lock.ErrUpgrade)
		err := held[2].Extend(w.ctx, ttl/10)
		isTrue(t, err == nil && held[3].Remaining() >= ttl/2, "Extend of one that shares: %v, and the others have %v", err, held[3].Remaining())
		w.unlock(again)
		isTrue(t, again.Context().Err() != nil, "entered twice and unlocked twice, it goes on")
		for _, h := range held[2:] {
			w.waits(writer)
			w.unlock(h)
		}
		wrote := w.await(writer).hold
		w.waits(late)
		w.inOrder(wrote, late)
		w.finish(w.await(anew).hold)
	})
}

// TestReadersWaitTogether: readers of one client that wait for a writer share an entry. If the
// entry is lost, each reader's hold ends.
func TestReadersWaitTogether(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.dial("b")
		wrote := w.take(b.RWMutex("x").Lock)
		giveUp, cancel := context.WithCancel(w.ctx)
		first, readers := w.callers(giveUp, 2, a.RWMutex("x").RLock), w.callers(w.ctx, 4, a.RWMutex("x").RLock) // the entry was created for one of the first readers
		w.hasEntries("x", 2)
		cancel()
		w.endBy(context.Canceled, first...)
		w.unlock(wrote)
		held := w.expectEach(readers...)
		w.remove(w.raw("admin"), held[0].EntryPath())
		time.Sleep(ttl)
		for _, h := range held {
			isTrue(t, h.Context().Err() != nil, "the reader with token %v was not told", h.Token())
			for _, err := range []error{context.Cause(h.Context()), h.Err(), h.Extend(w.ctx, ttl), h.Unlock()} {
				mustBe(t, err, lock.ErrRemoved)
				var lost *lock.LostError
				isTrue(t, errors.As(err, &lost) && lost.Token == h.Token(), "lost %v: %v", h.Token(), err)
			}
		}
		w.empty()
	})
}

// TestHandoffInANewSession: an entry that was not written in the present session is not handed off: it
// leaves, and the next goroutine enters by another one.
func TestHandoffInANewSession(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: time.Second}))
		h := w.lock(a, "x")
		line := w.line(w.ctx, a, "x", 1)
		session := a.Session()
		w.faults(func(r locktest.Request) bool { return r.Op == "setData" && touches(r, h.EntryPath()) }, locktest.Fault{Code: codeQuota})
		w.ExpireLabel("a")
		w.until("a new session", func() bool { return a.Session() != session && a.Session() != 0 })
		next := w.pass(h, line[0])
		isTrue(w, next.EntryPath() != h.EntryPath() && next.Remaining() >= ttl/2, "%s, with %v left", next.EntryPath(), next.Remaining())
		w.finish(next)
	})
}

// TestHandoffAwaitsTheLastRenewal: a local waiter waits for the reply to a renewal in flight. If
// the entry was deleted or force-released meanwhile, the waiter enters by another entry.
func TestHandoffAwaitsTheLastRenewal(t *testing.T) {
	forEach(t, locktest.Options{}, map[string]func(w *world, entry string) (wait func()){
		"renewed": nil,
		"removed": func(w *world, entry string) func() {
			w.remove(w.raw("admin"), entry)
			return func() {}
		},
		"broken": func(w *world, entry string) func() {
			broken := w.breaks(w.dial("c"), entry)
			return func() { mustBe(w, broken.Wait(w.ctx, terms), nil) }
		},
	}, func(w *world, meanwhile func(*world, string) func()) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, LocalWindow: time.Second}))
		h := w.lock(a, "x")
		line := w.line(w.ctx, a, "x", 2)
		sent := w.fault(writes("a", h.EntryPath()), locktest.Fault{Delay: time.Second / 2})
		extended := async(func() error { return h.Extend(w.ctx, ttl) }) // to the same TTL
		w.until("the renewal is sent", sent)
		wait := func() {}
		if meanwhile != nil {
			wait = meanwhile(w, h.EntryPath())
		}
		w.unlock(h)
		mustBe(t, <-extended, lock.ErrUnlocked)
		w.waits(line[0])
		next := w.inTime(line[0], ttl)
		equal(w, "whether the entry is the same", next.EntryPath() == h.EntryPath(), meanwhile == nil)
		w.alive(next)
		last := w.pass(next, line[1])
		time.Sleep(ttl)
		w.alive(last)
		w.unlock(last)
		wait()
		w.empty()
	})
}

// TestHoldsAreTheLastHandles: two held mutexes are locked again together, and these handles are
// unlocked last. Then both locks are free for local waiters, later goroutines, and other clients.
func TestHoldsAreTheLastHandles(t *testing.T) {
	each(t, "waits", bools, func(w *world, waits bool) {
		a, b := w.client("a"), w.client("b")
		x := w.lock(a, "x")
		y := w.takeIn(x.Context(), a.Mutex("y").Lock)
		both, err := a.All([]string{"x", "y"}).Lock(y.Context())
		mustBe(w, err, nil)
		limited := w.limited(ttl)
		var next []<-chan taken
		if waits {
			next = w.line(limited, a, "x", 1)
		}
		w.unlock(x, y)
		mustBe(w, both.Unlock(), nil)
		settle()
		if !waits {
			next = w.line(limited, a, "x", 1)
		}
		h := w.await(next[0]).hold
		isTrue(w, !waits || h.Token().Parts().Pass == 1, "token %v, want that of a handoff", h.Token())
		w.unlock(h)
		w.unlock(w.lock(b, "x"))
		w.finish(w.lock(b, "y"))
	})
}

// TestErrorsOfLocalWaiters: the error of each local waiter that gives up has the holder's entry and
// owner, whether or not the waiter was the first. During an outage the error is also
// ErrUnavailable.
func TestErrorsOfLocalWaiters(t *testing.T) {
	for name, barging := range map[string]bool{"queued": false, "barging": true} {
		eachPair(t, name+", behind its own client, outage", bools, bools, func(w *world, own, outage bool) {
			a := w.client("a")
			holder := a
			if !own {
				holder = w.dial("b")
			}
			mutex := func(c *lock.Client) *lock.Mutex {
				if m := c.Mutex("x"); !barging {
					return m
				}
				return c.Mutex("x").WithBarging()
			}
			h := w.take(mutex(holder).Lock)
			ctx := w.limited(ttl / 2)
			line := w.callers(ctx, 3, mutex(a).Lock)
			if outage {
				w.kill("a")
			}
			<-ctx.Done()
			for _, ch := range line {
				err := w.outcome(ch).err
				mustBe(w, err, context.DeadlineExceeded, lock.ErrHeld)
				held := heldError(w, err)
				isTrue(w, held.Entry == h.EntryPath() && held.PID != 0, "%v, want %s in the way", err, h.EntryPath())
				equal(w, "owner", held.Owner, map[bool]string{true: "a", false: "b"}[own])
				if !outage {
					inRange(w, "the lease ends in", time.Until(held.Expires), 1, ttl)
				}
				equal(w, "tells of the outage", errors.Is(err, lock.ErrUnavailable), outage)
			}
			w.Heal("a")
			w.finish(h)
		})
	}
}

// TestHandoffAsTheWaiterGivesUp: if a local waiter gives up at the moment of a handoff, the
// client's next call has the lock within a second.
func TestHandoffAsTheWaiterGivesUp(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		for range 20 {
			h := w.lock(a, "x")
			ctx, cancel := context.WithCancel(w.ctx)
			ch := w.line(ctx, a, "x", 1)[0]
			cancel()
			w.unlock(h)
			if got := w.outcome(ch); got.err == nil {
				w.unlock(got.hold)
			}
			w.unlock(w.takeIn(w.limited(time.Second), a.Mutex("x").Lock))
		}
		w.empty()
	})
}

// TestTokensRiseAfterTheLastHandoff: tokens still rise after an entry was handed off as often as
// its token can count.
func TestTokensRiseAfterTheLastHandoff(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		h := w.lock(a, "x")
		h.SetPass(math.MaxInt32 - 1)
		w.handOver(h, w.line(w.ctx, a, "x", 3)...)
	})
}

// TestListenersOfEndedEntriesAreForgotten: after Revoked was called for a hold, the client forgets
// the hold's entry once the entry has ended, also if a local waiter is there.
func TestListenersOfEndedEntriesAreForgotten(t *testing.T) {
	each(t, "others wait", bools, func(w *world, others bool) { // or the reply to the entry's last write is lost
		a, b := w.client("a"), w.dial("b")
		for range 10 {
			h := w.lock(a, "x")
			h.Revoked()
			next := w.line(w.ctx, a, "x", 1)[0]
			if others {
				other := w.queue(w.ctx, b, "x")
				time.Sleep(3 * window)
				w.inOrder(h, other)
			} else {
				w.fault(writes("a", h.EntryPath()), locktest.Fault{Delay: window, Drop: locktest.AfterApply})
				go h.Extend(w.ctx, ttl)
				settle()
				w.unlock(h)
			}
			last := w.await(next).hold
			isTrue(w, last.EntryPath() != h.EntryPath(), "the entry was handed on")
			w.unlock(last)
			settle()
		}
		for range 2 { // a later end removes the records of old ones
			time.Sleep(time.Minute)
			h := w.lock(a, "y")
			h.Revoked()
			w.unlock(h)
		}
		atMost(w, "entries that are remembered", a.Revocable(), 1)
		w.empty()
	})
}

// TestExchangeInDoubtTwice: if an exchange in doubt was applied, and the delete that follows is in doubt,
// too, the waiter enters within half a TTL, by the lock's only entry.
func TestExchangeInDoubtTwice(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x")
		waiting := w.line(w.ctx, a, "x", 1)
		n := w.faultsInTurn(func(r locktest.Request) bool { return mutates(r, "a") && r.Paths[0] == h.EntryPath() },
			first(locktest.Fault{Drop: locktest.AfterApply}, locktest.Fault{Drop: locktest.BeforeApply}))
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

// TestUnwantedJoinTellsNoWaiter: if all but one of the local waiters that join give up, their joins end, and
// the one that stays does not get the errors of those joins, one of which nearly always ends before its own.
func TestUnwantedJoinTellsNoWaiter(t *testing.T) {
	each(t, "run", []int{1, 2, 3}, func(w *world, _ int) {
		a := w.client("a")
		acquire := permits(a.Semaphore("x", 12), 1)
		held := []*lock.Hold{w.take(permits(w.client("b").Semaphore("x", 12), 1)), w.take(acquire)} // a knows how many permits are free
		settle()
		w.kill("a")
		settle()
		ctx, giveUp := context.WithCancel(w.ctx)
		leaving, stays := w.callers(ctx, 9, acquire), w.callers(w.ctx, 1, acquire)[0]
		giveUp()
		for _, ch := range leaving {
			w.endBy(context.Canceled, ch)
		}
		w.waits(stays)
		w.Heal("a")
		w.finish(append(held, w.await(stays).hold)...)
	})
}

// TestExchangeOfRemovedEntry: if another program deletes or overwrites the entry before the
// exchange, the local waiters enter by another entry, in order.
func TestExchangeOfRemovedEntry(t *testing.T) {
	each(t, "removed", bools, func(w *world, removed bool) {
		a, z := w.client("a"), w.raw("admin")
		h := w.lock(a, "x")
		time.Sleep(window)
		line := w.line(w.ctx, a, "x", 2)
		hit := w.before(func(r locktest.Request) bool { return r.Label == "a" && leaves(h)(r) }, func() {
			if removed {
				w.remove(z, h.EntryPath())
			} else {
				w.set(z, h.EntryPath(), []byte("mine"))
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
