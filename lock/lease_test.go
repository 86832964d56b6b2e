// Leases: Extend, max_hold.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestWithMaxHold: the option limits each hold of a lock, also beside the policy's max_hold, of which
// the shorter one counts. A wait does not count.
func TestWithMaxHold(t *testing.T) {
	const most = 3 * ttl
	forEach(t, locktest.Options{}, map[string]struct {
		policy, option, want time.Duration
	}{
		"alone": {0, most, most}, "shorter than the policy's": {2 * most, most, most}, "longer": {most, 2 * most, most}, "none": {most, 0, most},
	}, func(w *world, c struct{ policy, option, want time.Duration }) {
		a, b := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, MaxHold: c.policy})), w.dial("b")
		blocker := w.lock(b, "x")
		ch := w.queue(w.ctx, a, "x", lock.WithMaxHold(c.option))
		time.Sleep(5 * ttl)
		w.unlock(blocker)
		got := w.await(ch)
		ended := w.end(got.hold)
		next := w.queue(w.ctx, b, "x")
		inRange(w, "lasted", ended.wait().Sub(got.at), c.want-time.Millisecond, c.want+time.Millisecond)
		mustBe(w, got.hold.Err(), lock.ErrLost, lock.ErrMaxHold)
		last := w.await(next)
		w.inTurn(ended, last)
		atMost(w, "the next one entered after the end", last.at.Sub(ended.wait()), time.Second)
		w.finish(last.hold)
	})
	subtest(t, "limits", locktest.Options{}, func(w *world) {
		a := w.dial("a")
		for _, d := range []time.Duration{-1, ttl - time.Millisecond, ttl + 1, lock.MaxTime + time.Millisecond} {
			fails(w, a.Mutex("x", lock.WithMaxHold(d)).Validate(), lock.ErrInvalid, "max_hold", d.String())
		}
		mustBe(w, a.Mutex("x", lock.WithMaxHold(ttl)).Validate(), nil)
	})
}

// TestEndOfExtendedHoldInLongOutage: a hold is unlocked or detached during an outage that is longer
// than its TTL, but shorter than its extended lease. After the outage, another client enters or
// attaches within ten seconds.
func TestEndOfExtendedHoldInLongOutage(t *testing.T) {
	for _, detach := range bools {
		subtest(t, fmt.Sprintf("detach %v", detach), locktest.Options{}, func(w *world) {
			a, b := w.client("a"), w.client("b")
			h := w.lock(a, "x")
			w.ok(h.Extend(w.ctx, 30*time.Minute))
			w.ok(w.Partition("a"))
			var unlock *lock.UnlockError
			if detach {
				ticket, err := h.Detach(w.limited(time.Second), 0)
				isTrue(t, errors.As(err, &unlock), "detached: %v", err)
				time.Sleep(3 * time.Minute)
				w.Heal("a")
				w.finish(w.inTime(start(func() (*lock.Hold, error) { return b.Attach(w.ctx, ticket) }), 10*time.Second))
				return
			}
			isTrue(t, errors.As(h.Unlock(), &unlock), "unlocked")
			time.Sleep(3 * time.Minute)
			w.Heal("a")
			w.finish(w.inTime(w.queue(w.ctx, b, "x"), 10*time.Second))
		})
	}
}

func TestExtend(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, MaxTTL: 3 * ttl, Grace: grace}))
		h := w.lock(a, "x")
		for _, d := range []time.Duration{3 * ttl, ttl / 2, ttl} {
			w.ok(h.Extend(w.ctx, d))
			inRange(t, "remaining after an extension", h.Remaining(), d-d/100, d)
			equal(t, "TTL in the entry", w.record(h.EntryPath()).TTL, d.Milliseconds())
		}
		for d, rule := range map[time.Duration]string{
			3*ttl + time.Millisecond: "max_ttl, which is 30s", lock.MinTTL - time.Millisecond: "at least 100ms",
			time.Second + 1: "whole milliseconds", 0: "at least", -time.Second: "at least",
		} {
			fails(t, h.Extend(w.ctx, d), lock.ErrInvalid, "ttl", d.String(), rule)
		}
		isTrue(t, h.Remaining() >= ttl-ttl/100, "%v remain after extensions that were refused", h.Remaining())
		w.ok(h.Extend(w.ctx, 2*ttl))
		time.Sleep(4 * ttl) // later renewals keep the extended TTL
		w.alive(h)
		equal(t, "TTL in the entry", w.record(h.EntryPath()).TTL, (2 * ttl).Milliseconds())
		w.unlock(h)
		mustBe(t, h.Extend(w.ctx, ttl), lock.ErrUnlocked)
		w.empty()
	})
}

// TestShorteningCountsFromTheSend: a holder that requests a shorter lease, and gets no reply, uses
// the shorter lease.
func TestShorteningCountsFromTheSend(t *testing.T) {
	each(t, "fault", []locktest.Fault{{Drop: locktest.AfterApply}, {Drop: locktest.BeforeApply}, {DelayReply: time.Hour}, {Delay: time.Hour}}, func(w *world, fault locktest.Fault) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		ended := w.end(h)
		w.fault(func(r locktest.Request) bool { return renews(r, h) && w.cutOff("a") }, fault)
		ctx := w.limited(time.Second)
		sent := time.Now()
		mustBe(w, h.Extend(ctx, 2*time.Second), context.DeadlineExceeded)
		atMost(w, "remain a second after the lease was shortened to two", h.Remaining(), time.Second)
		ch := w.queue(w.ctx, b, "x")
		inRange(w, "the shortened lease ended after", ended.wait().Sub(sent), 1900*time.Millisecond, 2*time.Second)
		w.inTurn(ended, w.await(ch))
	})
}

// TestLengtheningCountsFromTheReply: a request for a longer lease does not lengthen the hold before
// it is acknowledged.
func TestLengtheningCountsFromTheReply(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		h := w.lock(w.dial("a"), "x")
		begun, ended := time.Now(), w.end(h)
		w.fault(func(r locktest.Request) bool { return renews(r, h) && w.cutOff("a") }, locktest.Fault{Drop: locktest.BeforeApply})
		ctx := w.limited(time.Second)
		mustBe(t, h.Extend(ctx, 10*ttl), context.DeadlineExceeded)
		atMost(t, "ended after", ended.wait().Sub(begun), ttl)
	})
}

func TestMaxHold(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const most = 25 * time.Second
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, MaxHold: most}))
		h := w.lock(a, "x")
		begun, ended := time.Now(), w.end(h)
		ch := w.queue(w.ctx, w.dial("b"), "x")
		w.ok(h.Extend(w.ctx, 2*most))
		atMost(w, "remaining", h.Remaining(), most)
		inRange(w, "lasted", ended.wait().Sub(begun), most-most/100, most+time.Millisecond)
		mustBe(w, h.Err(), lock.ErrLost, lock.ErrMaxHold)
		got := w.await(ch)
		w.inTurn(ended, got)
		atMost(w, "the next one entered after; the entry should have gone at once", got.at.Sub(begun), most+time.Second)
		w.unlock(got.hold)
		mustBe(w, h.Unlock(), lock.ErrMaxHold)
		w.empty()
	})
}

// TestExtendWithoutServer: the error of an Extend that was not acknowledged names the lock.
func TestExtendWithoutServer(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.client("a")
		h := w.lock(a, "x")
		w.Partition("a")
		fails(w, h.Extend(w.limited(time.Second), ttl), context.DeadlineExceeded, `extend "x": `)
		w.Heal("a")
		w.finish(h)
	})
}
