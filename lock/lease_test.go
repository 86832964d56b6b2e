// Leases: fixed ones, Extend, max_hold.

package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

func TestFixedLeaseEndsOnTime(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		for _, waited := range []bool{true, false} {
			var blocker *lock.Hold
			if waited {
				blocker = w.lock(b, "x")
			}
			ch := start(func() (*lock.Hold, error) { return a.Mutex("x", lock.WithoutRenewal()).Lock(w.ctx) })
			if waited {
				time.Sleep(5 * ttl) // a waiter is renewed all the same
				w.waits(ch)
				w.unlock(blocker)
			}
			got := w.await(ch)
			h, ended := got.hold, w.end(got.hold)
			if r := w.record(h.EntryPath()); !r.Granted() {
				t.Errorf("waited %v: the grant of a fixed lease was not recorded at once: %+v", waited, r)
			}
			renewals := a.Stats().Renewals
			version := w.node(h.EntryPath()).Stat.Version
			ch = w.queue(w.ctx, b, "x")
			// Others of the client are renewed just before its end.
			var crowd []*lock.Hold
			for i := range 40 {
				time.Sleep(ttl / 200)
				crowd = append(crowd, w.lock(a, fmt.Sprint("y", i)))
			}
			time.Sleep(time.Until(got.at.Add(ttl - ttl/50)))
			if n := w.node(h.EntryPath()).Stat.Version; n != version || a.Stats().Renewals == renewals {
				t.Errorf("waited %v: renewed %d times, others %d times", waited, n-version, a.Stats().Renewals-renewals)
			}
			at := ended.wait()
			if lasted := at.Sub(got.at); lasted > ttl || lasted < ttl-ttl/100 {
				t.Errorf("waited %v: a fixed lease lasted %v", waited, lasted)
			}
			mustBe(t, h.Err(), lock.ErrLost, lock.ErrExpired)
			for _, h := range crowd {
				w.unlock(h)
			}
			next := w.await(ch)
			w.inTurn(ended, next)
			mustBe(t, h.Unlock(), lock.ErrLost, lock.ErrExpired)
			w.unlock(next.hold)
			w.empty()
		}
	})
}

func TestExtend(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, MaxTTL: 3 * ttl, Grace: grace}))
		for _, opts := range [][]lock.LockOption{nil, {lock.WithoutRenewal()}} {
			h := w.lock(a, "x", opts...)
			ended := w.end(h)
			for _, d := range []time.Duration{3 * ttl, ttl / 2, ttl} {
				w.ok(h.Extend(w.ctx, d))
				if r := h.Remaining(); r > d || r < d-d/100 {
					t.Errorf("%v remain after an extension to %v", r, d)
				}
				if r := w.record(h.EntryPath()); r.TTL != d.Milliseconds() {
					t.Errorf("the entry has %d ms, want %v", r.TTL, d)
				}
			}
			for d, rule := range map[time.Duration]string{
				3*ttl + time.Millisecond: "max_ttl, 30s", lock.MinTTL - time.Millisecond: "at least 100ms",
				time.Second + 1: "whole milliseconds", 0: "at least", -time.Second: "at least",
			} {
				err := h.Extend(w.ctx, d)
				mustBe(t, err, lock.ErrInvalid)
				mustSay(t, err, "ttl", d.String(), rule)
			}
			if r := h.Remaining(); r < ttl-ttl/100 {
				t.Errorf("%v remain after extensions that were refused", r)
			}
			w.ok(h.Extend(w.ctx, 2*ttl))
			if opts == nil {
				time.Sleep(4 * ttl) // later renewals carry it
				w.alive(h)
				if r := w.record(h.EntryPath()); r.TTL != (2 * ttl).Milliseconds() {
					t.Errorf("the entry has %d ms, want %v", r.TTL, 2*ttl)
				}
				w.unlock(h)
				mustBe(t, h.Extend(w.ctx, ttl), lock.ErrUnlocked)
			} else {
				before := time.Now()
				if lasted := ended.wait().Sub(before); lasted > 2*ttl+time.Millisecond || lasted < 2*ttl-ttl/50 {
					t.Errorf("lasted %v after an extension to %v", lasted, 2*ttl)
				}
				mustBe(t, h.Extend(w.ctx, ttl), lock.ErrLost, lock.ErrExpired)
			}
			w.empty()
		}
	})
}

// TestShorteningCountsFromTheSend: a holder that asks for a shorter lease and does not
// hear of it goes by the shorter one.
func TestShorteningCountsFromTheSend(t *testing.T) {
	for _, fault := range []locktest.Fault{{Drop: locktest.AfterApply}, {Drop: locktest.BeforeApply}, {DelayReply: time.Hour}, {Delay: time.Hour}} {
		subtest(t, fmt.Sprintf("%+v", fault), locktest.Options{}, func(w *world) {
			a, b := w.dial("a"), w.dial("b")
			h := w.lock(a, "x", lock.WithoutRenewal())
			ended := w.end(h)
			w.fault(func(r locktest.Request) bool { return renews(r, h) && w.cutOff("a") }, fault)
			ctx := w.limited(time.Second)
			sent := time.Now()
			mustBe(w, h.Extend(ctx, 2*time.Second), context.DeadlineExceeded)
			atMost(w, "remain a second after the lease was shortened to two", h.Remaining(), time.Second)
			ch := w.queue(w.ctx, b, "x")
			if at := ended.wait().Sub(sent); at > 2*time.Second || at < 1900*time.Millisecond {
				w.Errorf("ended %v after the lease was shortened to 2s", at)
			}
			w.inTurn(ended, w.await(ch))
		})
	}
}

// TestLengtheningCountsFromTheReply: what was not acknowledged is not had.
func TestLengtheningCountsFromTheReply(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x", lock.WithoutRenewal())
		begun, ended := time.Now(), w.end(h)
		w.fault(func(r locktest.Request) bool { return renews(r, h) && w.cutOff("a") }, locktest.Fault{Drop: locktest.BeforeApply})
		ctx := w.limited(time.Second)
		mustBe(t, h.Extend(ctx, 10*ttl), context.DeadlineExceeded)
		if at := ended.wait().Sub(begun); at > ttl {
			t.Errorf("ended after %v, want at most %v", at, ttl)
		}
	})
}

func TestMaxHold(t *testing.T) {
	for _, opts := range [][]lock.LockOption{nil, {lock.WithoutRenewal()}} {
		subtest(t, fmt.Sprint("fixed ", opts != nil), locktest.Options{}, func(w *world) {
			const most = 25 * time.Second
			a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, MaxHold: most}))
			h := w.lock(a, "x", opts...)
			begun, ended := time.Now(), w.end(h)
			ch := w.queue(w.ctx, w.dial("b"), "x")
			w.ok(h.Extend(w.ctx, 2*most))
			if r := h.Remaining(); r > most {
				w.Errorf("%v remain, want at most %v", r, most)
			}
			if lasted := ended.wait().Sub(begun); lasted > most+time.Millisecond || lasted < most-most/100 {
				w.Errorf("lasted %v, want %v", lasted, most)
			}
			mustBe(w, h.Err(), lock.ErrLost, lock.ErrMaxHold)
			got := w.await(ch)
			w.inTurn(ended, got)
			atMost(w, "the next one entered after; the entry should have gone at once", got.at.Sub(begun), most+time.Second)
			w.unlock(got.hold)
			mustBe(w, h.Unlock(), lock.ErrMaxHold)
			w.empty()
		})
	}
}
