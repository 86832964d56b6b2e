// Renewals: batches, pace, lost replies, deadlines.

package lock_test

import (
	"fmt"
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

func TestRenewalWhoseReplyIsLost(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault locktest.Fault
		then  func(*world)
	}{
		{"applied, the reply lost", locktest.Fault{Drop: locktest.AfterApply}, nil},
		{"applied, the reply and the session lost", locktest.Fault{Drop: locktest.AfterApply}, func(w *world) { w.ExpireLabel("a") }},
		{"lost", locktest.Fault{Drop: locktest.BeforeApply}, nil},
		{"lost, the session too", locktest.Fault{Drop: locktest.BeforeApply}, func(w *world) { w.ExpireLabel("a") }},
		{"throttled", locktest.Fault{Code: codeThrottled}, nil},
		{"refused for once", locktest.Fault{Code: codeNoAuth}, nil},
		{"slow", locktest.Fault{Delay: 2 * time.Second}, nil},
		{"the reply slow", locktest.Fault{DelayReply: 3 * time.Second}, nil},
		{"the reply slower than the connection", locktest.Fault{DelayReply: 5 * time.Second}, nil},
	} {
		for _, alone := range []bool{true, false} {
			subtest(t, fmt.Sprintf("%s alone %v", tt.name, alone), locktest.Options{}, func(w *world) {
				a := w.dial("a")
				h := w.lock(a, "x")
				other := h
				if !alone { // both entries are in one transaction
					other = w.lock(a, "y")
				}
				ch := w.queue(w.ctx, w.dial("b"), "x")
				hit := w.fault(func(r locktest.Request) bool { return renews(r, h) }, tt.fault)
				w.until("a renewal", hit)
				if tt.then != nil {
					time.Sleep(500 * time.Millisecond) // before the client reconnects
					tt.then(w)
				}
				for range 4 * 5 {
					time.Sleep(ttl / 5)
					w.alive(h)
					w.alive(other)
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
	}
}

// TestRenewalIsRetriedUntilTheDeadline: a renewal that is refused while more than a fifth of the
// TTL is left succeeds later, and the hold stays valid. It is retried at most 200 times in three
// TTLs.
func TestRenewalIsRetriedUntilTheDeadline(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h := w.lock(a, "x")
		refused := 0
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if renews(r, h) && h.Remaining() > ttl/5 {
				refused++
				return locktest.Fault{Code: codeThrottled}
			}
			return locktest.Fault{}
		})
		time.Sleep(3 * ttl)
		w.alive(h)
		isTrue(t, refused >= 3 && refused <= 200, "refused %d times", refused)
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
			if !renews(r, h) || hit.Swap(true) {
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

// TestLeaseCountsFromTheSend: a lease counts from the send of the create or of the renewal, however
// late the reply is.
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
	forEach(t, locktest.Options{}, map[string]locktest.Fault{
		"renewal":                                {DelayReply: late},
		"renewal whose reply is lost, read back": {Drop: locktest.AfterApply},
	}, func(w *world, fault locktest.Fault) {
		a := w.dial("a", long)
		h := w.lock(a, "x")
		ended := w.end(h)
		hit := w.fault(func(r locktest.Request) bool { return renews(r, h) }, fault)
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
			isTrue(t, c.Stats().Waiters == 1 && c.Stats().Requeued == 0 && c.Stats().Renewals >= 100, "stats %+v", c.Stats())
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
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: true}))
		h := w.lock(a, "x") // creates the parent: no other client can be there
		if r := w.record(h.EntryPath()); r.AcquiredAt != time.Now().UnixMilli() && r.AcquiredAt != time.Now().UnixMilli()+1 {
			t.Errorf("acquired at %d, now is %d", r.AcquiredAt, time.Now().UnixMilli())
		}
		w.unlock(h)
		h = w.lock(a, "x") // finds the parent, so it may not be alone
		r := w.record(h.EntryPath())
		isTrue(t, !r.Granted(), "recorded before it was known")
		at := time.Now().UnixMilli()
		time.Sleep(ttl / 2)
		if r := w.record(h.EntryPath()); r.AcquiredAt < at || r.AcquiredAt > at+1 {
			t.Errorf("acquired at %d, want %d", r.AcquiredAt, at)
		}
		ch := w.queue(w.ctx, w.dial("b"), "x")
		h = w.pass(h, ch)
		at = time.Now().UnixMilli()
		time.Sleep(time.Millisecond)
		if r := w.record(h.EntryPath()); r.AcquiredAt < at-1 || r.AcquiredAt > at+1 || r.ExpiresAt < at+ttl.Milliseconds() {
			t.Errorf("record %+v a millisecond after the grant at %d", r, at)
		}
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

// TestUnsentWriteIsDropped: a hold ends while its client has no connection, and an Extend waits for
// one. The Extend returns at once why the hold has ended, and is not sent later.
func TestUnsentWriteIsDropped(t *testing.T) {
	each(t, "detached", bools, func(w *world, detached bool) {
		a := w.client("a")
		h := w.lock(a, "x")
		w.kill("a")
		w.Cut("a")
		time.Sleep(time.Second)
		extended := async(func() error { return h.Extend(w.ctx, 3*ttl) })
		hasNotCome(w, extended)
		why := lock.ErrUnlocked
		if detached {
			why = lock.ErrDetached
			go h.Detach(w.ctx, 0)
		} else {
			go h.Unlock()
		}
		mustBe(w, hasCome(w, extended), why)
		w.Heal("a")
		w.until("the end is written", func() bool { return detached && w.record(pathOf(h)).Detached || len(w.entries("x")) == 0 })
		time.Sleep(time.Second)
		for _, e := range w.entries("x") {
			equal(w, "version of the detached entry", e.Stat.Version, 1)
		}
	})
}
