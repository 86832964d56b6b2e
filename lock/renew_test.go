// Renewals: batches, pace, lost replies, deadlines. Goroutines of one client share transactions.

package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestManyRenewalsAreSpread: the renewals of 1280 holds are sent in nearly full transactions, at
// most three of them at once.
func TestManyRenewalsAreSpread(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const n, full = 1280, 75
		a := w.dial("a")
		for i := range n { // spread over the time of one renewal of each
			w.lock(a, fmt.Sprint("x", i))
			time.Sleep(ttl / 3 / n)
		}
		time.Sleep(ttl)
		var last time.Time
		var renewed, sent, together, most int
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if mutates(r, "a") {
				if now := time.Now(); now.Sub(last) > time.Millisecond {
					last, together = now, 0
				}
				together++
				most = max(most, together)
				sent++
				renewed += len(r.Paths)
			}
			return locktest.Fault{}
		})
		time.Sleep(10 * ttl / 3)
		w.Intercept(nil)
		synctest.Wait() // until no renewal is counted any more
		isTrue(t, renewed >= 9*n && renewed <= 11*n, "%d renewals in 10 thirds of the TTL of %d holds", renewed, n)
		isTrue(t, renewed >= sent*full*8/10, "%d renewals in %d transactions, want nearly %d in each", renewed, sent, full) // 66 to 73 in 75 runs
		atMost(t, "transactions at once", most, 3)
		isTrue(t, a.Stats().Holds == n && a.Stats().Lost == 0, "stats %+v", a.Stats())
	})
}

// TestRenewalWhoseReplyIsLost: whatever befalls a renewal, alone or in a transaction with another one, no
// hold is lost, and the waiter waits.
func TestRenewalWhoseReplyIsLost(t *testing.T) {
	eachMishap(t, "alone", bools, func(w *world, alone bool, mishap int) {
		a := w.dial("a")
		h := w.lock(a, "x")
		other := h
		if !alone { // both entries are in one transaction
			other = w.lock(a, "y")
		}
		ch := w.queue(w.ctx, w.dial("b"), "x")
		w.until("a renewal", w.mishap(mishap, "a", writes("a", h.EntryPath())))
		for range 4 * 5 {
			time.Sleep(ttl / 5)
			w.alive(h, other)
			w.waits(ch)
		}
		isTrue(w, a.Stats().Lost == 0 && a.Stats().Renewals >= 3, "stats %+v", a.Stats())
		w.unlock(w.pass(h, ch))
		if !alone {
			w.unlock(other)
		}
		w.empty()
	})
}

// TestRenewalIsRetriedUntilTheDeadline: a renewal that is refused while more than a fifth of the
// TTL is left succeeds later, and the hold stays valid. It is retried at most 200 times in three
// TTLs.
func TestRenewalIsRetriedUntilTheDeadline(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x")
		refused := w.faults(func(r locktest.Request) bool {
			return writes("a", h.EntryPath())(r) && h.Remaining() > ttl/5
		}, locktest.Fault{Code: codeThrottled})
		time.Sleep(3 * ttl)
		w.alive(h)
		inRange(t, "refused so often", refused.Load(), 3, 200)
		if w.until("a renewal", func() bool { return h.Remaining() > ttl/2 }); a.Stats().Renewals < 2 {
			t.Error("not renewed")
		}
		w.finish(h)
	})
}

// TestLateRenewalOfLostHold: a renewal is applied after the hold was lost. The entry blocks the
// waiter for at most two seconds after the loss.
func TestLateRenewalOfLostHold(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithSessionTimeout(time.Minute)) // so that the connection lasts
		over := time.Now().Add(ttl)
		h := w.lock(a, "x")
		ended := w.end(h)
		var hit atomic.Bool
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if !writes("a", h.EntryPath())(r) || hit.Swap(true) {
				return locktest.Fault{}
			}
			return locktest.Fault{Delay: time.Until(over) + grace/2} // before other clients may purge
		})
		ch := w.queue(w.ctx, w.dial("b"), "x")
		w.until("a renewal", hit.Load)
		version := w.node(h.EntryPath()).Stat.Version
		ended.wait()
		mustBe(t, h.Err(), lock.ErrLost, lock.ErrExpired)
		w.waits(ch)
		mustBeTrue(t, w.node(h.EntryPath()).Stat.Version == version, "the renewal came in time")
		z := w.raw("other")
		_, _, written, err := z.GetW(h.EntryPath())
		w.ok(err)
		e := <-written
		mustBeTrue(t, e.Type == zk.EventNodeDataChanged, "%v: the renewal never came", e)
		got := w.await(ch)
		w.inTurn(ended, got)
		atMost(w, "blocked for after the loss", got.at.Sub(ended.when), 2*time.Second)
		w.finish(got.hold)
	})
}

// TestLeaseCountsFromTheSend: a lease counts from the send of the create, of the write that attaches, or
// of the renewal, however late the reply is.
func TestLeaseCountsFromTheSend(t *testing.T) {
	const late = 2 * time.Second
	long := lock.WithSessionTimeout(time.Minute) // the connection lasts
	subtest(t, "lock", locktest.Options{}, func(w *world) {
		a := w.dial("a", long)
		w.unlock(w.lock(a, "x"))
		w.fault(joins, locktest.Fault{DelayReply: late})
		sent := time.Now()
		ended := w.end(w.lock(a, "x"))
		w.kill("a")
		atMost(w, "lasted from the send", ended.wait().Sub(sent), ttl)
	})
	subtest(t, "attach", locktest.Options{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		ticket := w.detach(w.lock(a, "x"), time.Minute)
		w.fault(writes("b", ticket.EntryPath()), locktest.Fault{DelayReply: late})
		h := w.attach(b, ticket)
		atMost(w, "what remains of a lease that was written two seconds ago", h.Remaining(), ttl-late)
		w.finish(h)
	})
	forEach(t, locktest.Options{}, map[string]locktest.Fault{
		"renewal":                                {DelayReply: late},
		"renewal whose reply is lost, read back": {Drop: locktest.AfterApply},
	}, func(w *world, fault locktest.Fault) {
		a := w.dial("a", long)
		h := w.lock(a, "x")
		ended := w.end(h)
		hit := w.fault(writes("a", h.EntryPath()), fault)
		w.until("a renewal", hit)
		sent := time.Now()
		w.until("it is acknowledged", func() bool {
			return a.Stats().Renewals == 1 || w.node(h.EntryPath()).Stat.Version == 1 && h.Remaining() > ttl*3/4
		})
		w.kill("a")
		inRange(w, "lasted from the send", ended.wait().Sub(sent), ttl*9/10, ttl)
	})
}

// TestWaitersAreRenewed: a waiter keeps its entry for fifty TTLs.
func TestWaitersAreRenewed(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		b, c := w.dial("b"), w.dial("c")
		second, third := w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")
		before := paths(w.entries("x"))
		time.Sleep(50 * ttl)
		w.waits(second, third)
		isTrue(t, fmt.Sprint(before) == fmt.Sprint(paths(w.entries("x"))), "entries were %q and are %q", before, paths(w.entries("x")))
		for _, c := range []*lock.Client{b, c} {
			equal(t, "stats", c.Stats(), lock.Stats{Waiters: 1, Renewals: max(100, c.Stats().Renewals)})
		}
		h = w.pass(h, second)
		w.waits(third)
		w.handOver(h, third)
	})
}

// TestGrantIsRecorded: a join that creates the parent records the grant. If the parent exists and
// the lock is free, the first renewal records it. After a wait, a write records it at once.
func TestGrantIsRecorded(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", keeps(true))
		h := w.lock(a, "x") // creates the parent: no other client can be there
		at := time.Now().UnixMilli()
		inRange(t, "acquired at", w.record(h.EntryPath()).AcquiredAt, at, at+1)
		w.unlock(h)
		h = w.lock(a, "x") // finds the parent, so it may not be alone
		r := w.record(h.EntryPath())
		isTrue(t, !r.Granted(), "recorded before it was known")
		at = time.Now().UnixMilli()
		time.Sleep(ttl / 2)
		inRange(t, "acquired at", w.record(h.EntryPath()).AcquiredAt, at, at+1)
		ch := w.queue(w.ctx, w.dial("b"), "x")
		h = w.pass(h, ch)
		at = time.Now().UnixMilli()
		time.Sleep(time.Millisecond)
		r = w.record(h.EntryPath())
		inRange(t, "acquired at", r.AcquiredAt, at-1, at+1)
		isTrue(t, r.ExpiresAt >= at+ttl.Milliseconds(), "record %+v a millisecond after the grant at %d", r, at)
		w.finish(h)
	})
}

// TestRenewalsOfLongTTLs: after a renewal of a lease with a TTL of an hour up to MaxTime, no second
// renewal follows at once.
func TestRenewalsOfLongTTLs(t *testing.T) {
	each(t, "ttl", []time.Duration{time.Hour, 10 * time.Hour, 24 * time.Hour, lock.MaxTime}, func(w *world, ttl time.Duration) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace}))
		h := w.lock(a, "x")
		w.ok(h.Extend(w.ctx, ttl))
		time.Sleep(time.Millisecond)
		equal(w, "renewals", a.Stats().Renewals, 1)
		w.unlock(h)
	})
}

// TestUnsentWriteIsDropped: a hold ends while its client has no connection, and an Extend or a Txn waits
// for one. The call returns at once why the hold has ended, and is not sent later.
func TestUnsentWriteIsDropped(t *testing.T) {
	eachPair(t, "detached txn", bools, bools, func(w *world, detached, txn bool) {
		w.makeApp()
		h := w.lock(w.client("a"), "x")
		w.kill("a")
		w.Cut("a")
		time.Sleep(time.Second)
		written := async(func() error {
			if txn {
				return h.Txn(w.ctx, add())
			}
			return h.Extend(w.ctx, 3*ttl)
		})
		hasNotCome(w, written)
		why := lock.ErrUnlocked
		if detached {
			why = lock.ErrDetached
			go h.Detach(w.ctx, 0)
		} else {
			go h.Unlock()
		}
		mustBe(w, hasCome(w, written), why)
		w.Heal("a")
		w.until("the end is written", func() bool { return detached && w.record(h.EntryPath()).Detached || len(w.entries("x")) == 0 })
		time.Sleep(time.Second)
		w.applied(0)
		for _, e := range w.entries("x") {
			equal(w, "version of the detached entry", e.Stat.Version, 1)
		}
	})
}

// link is a network on which a reply takes the given time, give or take a quarter.
func link(replyTime time.Duration) locktest.Options {
	r := random(1, "link")
	var mu sync.Mutex
	return locktest.Options{Latency: func(string, string) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return between(r, replyTime*3/8, replyTime*5/8)
	}}
}

// inEach runs f in n goroutines, and waits for them.
func inEach(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// cycles has n goroutines of a client lock and unlock a lock each for a second. It returns the number of cycles and of transactions.
func (w *world) cycles(c *lock.Client, n int) (cycles, transactions int64) {
	var number atomic.Int64
	before, end := w.Transactions(), time.Now().Add(time.Second)
	inEach(n, func(i int) {
		for time.Now().Before(end) {
			number.Add(1)
			w.unlock(w.lock(c, fmt.Sprint("l", i)))
		}
	})
	return number.Load(), w.Transactions() - before
}

// TestGoroutinesShareTransactions: the cost and the time of a cycle of many goroutines that each
// have a lock of their own.
func TestGoroutinesShareTransactions(t *testing.T) {
	for _, c := range []struct {
		n     int
		reply time.Duration
		most  float64 // transactions a cycle
		slow  float64 // round trips a cycle, on average: 2 without waiting for a transaction
	}{
		{4, time.Millisecond, 1.6, 2.1},
		{16, 10 * time.Millisecond, 0.9, 2.4},
		{64, time.Millisecond, 0.4, 2.8},
		{64, 10 * time.Millisecond, 0.4, 2.4},
		{1000, 50 * time.Millisecond, 0.15, 2.5},
	} {
		subtest(t, fmt.Sprintf("%d at %v", c.n, c.reply), link(c.reply), func(w *world) {
			a := w.client("a")
			w.cycles(a, c.n) // until the parents are there
			cycles, transactions := w.cycles(a, c.n)
			cost := float64(transactions) / float64(cycles)
			trips := float64(c.n) * (time.Second.Seconds() / c.reply.Seconds()) / float64(cycles)
			w.Logf("%d cycles, %.2f transactions and %.2f round trips each", cycles, cost, trips)
			atMost(w, "transactions of a cycle", cost, c.most)
			atMost(w, "round trips of a cycle", trips, c.slow)
		})
	}
}

// TestGuessesOfMany: a client that is wrong about the parents of many locks learns so by few refused
// transactions, and in five round trips.
func TestGuessesOfMany(t *testing.T) {
	const n, reply = 256, 10 * time.Millisecond
	simulate(t, link(reply), func(w *world) {
		a, b := w.client("a", lock.WithInFlight(0)), w.client("b")
		var hs [n]*lock.Hold
		inEach(n, func(i int) { hs[i] = w.lock(b, fmt.Sprint("l", i)) })
		begun, before := time.Now(), w.Transactions()
		var chs [n]<-chan taken
		for i := range n {
			chs[i] = start(func() (*lock.Hold, error) { return a.Mutex(fmt.Sprint("l", i)).Lock(w.ctx) })
		}
		for len(w.nodes()) < 4*n { // two contenders, the anchor and the lock's node
			time.Sleep(reply / 20)
		}
		trips := float64(time.Since(begun)) / float64(reply)
		w.Logf("%d joins behind another client: %.1f round trips, %d transactions", n, trips, w.Transactions()-before)
		atMost(w, "round trips", trips, 5.5)
		atMost(w, "transactions", w.Transactions()-before, 30)
		inEach(n, func(i int) { w.unlock(hs[i]) })
		inEach(n, func(i int) { w.unlock(w.await(chs[i]).hold) })
	})
}

// TestManyLocksHandedOver: a client unlocks many locks, and another one joins before, at the same time
// or after. The unlocks begin at once, or one after the other within 2.5 ms.
func TestManyLocksHandedOver(t *testing.T) {
	const n, reply = 125, 2 * time.Millisecond
	handOver := func(w *world, lead, apart time.Duration) {
		a, b := w.client("a"), w.client("b")
		var old, next [n]*lock.Hold
		inEach(n, func(i int) { old[i] = w.lock(a, fmt.Sprint("l", i)) })
		before := w.Transactions()
		inEach(2*n, func(i int) {
			if i < n {
				time.Sleep(max(lead, 0) + time.Duration(i)*apart)
				w.unlock(old[i])
			} else {
				time.Sleep(max(-lead, 0))
				next[i-n] = w.lock(b, fmt.Sprint("l", i-n))
			}
		})
		got := w.Transactions() - before
		w.Logf("%d transactions", got)
		if limit := int64(40); got > limit && apart == 0 || got > limit+10 {
			w.Errorf("%d transactions, want at most %d, or 10 more if the unlocks come one after the other", got, limit)
		}
		inEach(n, func(i int) { w.unlock(next[i]) })
	}
	for _, apart := range []time.Duration{0, 20 * time.Microsecond} {
		for _, lead := range []time.Duration{500 * reply, 2 * reply, 3 * reply / 2, reply, reply / 2, 0, -reply / 2, -reply, -500 * reply} {
			subtest(t, fmt.Sprintf("%v before, apart %v", lead, apart), link(reply), func(w *world) { handOver(w, lead, apart) })
		}
	}
}

// TestGivenUpWhileSilent: of calls that give up while their server is silent, it gets only those that were
// sent before: four, since too few wait to fill a transaction.
func TestGivenUpWhileSilent(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a", lock.WithInFlight(0))
		w.unlock(w.lock(a, "first"))
		w.ok(w.Partition("a"))
		ctx, cancel := context.WithCancel(w.ctx)
		var calls []<-chan error
		for i := range 60 {
			calls = append(calls, async(func() error { return second(a.Mutex(fmt.Sprint("l", i)).Lock(ctx)) }))
			time.Sleep(time.Millisecond)
		}
		cancel()
		var creates atomic.Int64
		w.Intercept(func(r locktest.Request) locktest.Fault {
			for _, path := range r.Paths {
				if strings.HasSuffix(path, "-lock-") {
					creates.Add(1)
				}
			}
			return locktest.Fault{}
		})
		w.Heal("a")
		for _, call := range calls {
			mustBe(w, <-call, context.Canceled)
		}
		time.Sleep(10 * time.Second)
		equal(w, "entries that were created", creates.Load(), 4)
		w.empty()
	})
}
