// Hold: context, reentry, Do, Unlock, Extend, max_hold, errors, zero values.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

type key struct{}

func TestHold(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithMetadata(map[string]string{"service": "shop", "build": "7"}))
		ctx, cancel := context.WithCancel(context.WithValue(w.ctx, key{}, "mine"))
		h := w.takeIn(ctx, a.Mutex("orders/42", lock.WithMetadata(map[string]string{"build": "8"})).Lock)
		cancel() // ends only the wait
		time.Sleep(3 * ttl)
		w.alive(h)
		isTrue(t, h.Name() == "orders/42" && h.Context().Value(key{}) == "mine", "name %q, value %v", h.Name(), h.Context().Value(key{}))
		want := fmt.Sprint(map[string]string{"service": "shop", "build": "8"})
		equal(t, "metadata", fmt.Sprint(h.Metadata()), want)
		h.Metadata()["build"] = "9" // a copy
		r := w.record(h.EntryPath())
		got := fmt.Sprint(r.Metadata)
		isTrue(t, got == want && r.Owner == "a" && r.PID != 0 && r.TTL == ttl.Milliseconds(), "record %+v", r)
		isTrue(t, h.Remaining() > ttl/2 && h.Remaining() < ttl, "%v remain", h.Remaining())
		w.alive(h)
		w.unlock(h)
		<-h.Context().Done()
		mustBe(t, h.Err(), lock.ErrUnlocked)
		mustBe(t, context.Cause(h.Context()), lock.ErrUnlocked)
		equal(t, "remaining after Unlock", h.Remaining(), 0)
		mustBe(t, h.Unlock(), lock.ErrUnlocked)
		mustBe(t, h.Extend(w.ctx, ttl), lock.ErrUnlocked)
	})
}

// TestContextAskedForLate: the first call of Context may be after the end of the hold. It returns a
// context that has ended, with the hold's cause and the caller's values.
func TestContextAskedForLate(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		ctx := context.WithValue(w.ctx, key{}, "mine")
		for _, lost := range []bool{false, true} {
			h := w.takeIn(ctx, a.Mutex("x", lock.WithMaxHold(ttl)).Lock)
			why := lock.ErrUnlocked
			if lost {
				time.Sleep(ttl + time.Second)
				why = lock.ErrLost
			} else {
				w.unlock(h)
			}
			mustBe(t, h.Err(), why)
			mustBe(t, context.Cause(h.Context()), why)
			mustBe(t, h.Context().Err(), context.Canceled)
			hasCome(w, h.Context().Done())
			isTrue(t, h.Context() == h.Context() && h.Context().Value(key{}) == "mine", "another context each time, or one with the value %v", h.Context().Value(key{}))
		}
	})
}

// TestHoldsNeedNoGoroutines: 200 holds whose Context was called need no goroutines.
func TestHoldsNeedNoGoroutines(t *testing.T) {
	simulateAlone(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.unlock(w.lock(a, "x"))
		settle()
		before := runtime.NumGoroutine()
		for i := range 200 {
			h := w.lock(a, fmt.Sprint("x", i))
			hasNotCome(w, h.Context().Done())
		}
		for range 20 {
			time.Sleep(ttl / 20)
			settle()
			if n := runtime.NumGoroutine(); n > before+4 { // two for a transaction on its way
				t.Fatalf("%d goroutines, and %d without the holds", n, before)
			}
		}
	})
}

// TestReentry: reentry depends on the context, is counted, and costs no request.
func TestReentry(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		ctx := context.WithValue(h.Context(), key{}, 1) // derived
		var again []*lock.Hold
		cost := w.cost("a", func() {
			for _, take := range []taking{a.Mutex("x").Lock, a.Mutex("x").TryLock, a.Mutex("x", lock.WithTTL(time.Second)).Lock} {
				got := w.takeIn(ctx, take)
				isTrue(t, got.EntryPath() == h.EntryPath() && got.Token() == h.Token() && got.Remaining() != 0, "%s, want the same hold, %s", got.EntryPath(), h.EntryPath())
				again = append(again, got)
			}
		})
		equal(t, "to enter again cost", cost.total(), 0)
		mustBe(t, second(b.Mutex("x").TryLock(ctx)), lock.ErrHeld)   // another client
		mustBe(t, second(a.Mutex("x").TryLock(w.ctx)), lock.ErrHeld) // another context
		y := w.takeIn(ctx, a.Mutex("y").TryLock)                     // another lock
		isTrue(t, y.EntryPath() != h.EntryPath(), "two locks have one entry")
		inner := w.takeIn(y.Context(), a.Mutex("x").TryLock) // nested
		equal(t, "entry", inner.EntryPath(), h.EntryPath())

		// The last unlock ends the hold, in whatever order the handles are unlocked.
		for i, one := range append([]*lock.Hold{h, inner}, again...) {
			isTrue(w, one.Remaining() != 0 && one.Err() == nil, "handle %d: %v", i, one.Err())
			w.unlock(one)
			atMost(t, "what remains of a handle after its Unlock", one.Remaining(), 0)
			mustBe(t, one.Unlock(), lock.ErrUnlocked)
			mustBe(t, one.Extend(w.ctx, ttl), lock.ErrUnlocked)
			n, last := len(w.entries("x")), i == 4
			isTrue(t, (n == 0) == last && (ctx.Err() != nil) == last, "after %d of 5 unlocks: %d entries, context %v", i+1, n, ctx.Err())
		}
		// A handle does not reenter after its unlock.
		mustBe(t, second(a.Mutex("x").Lock(ctx)), context.Canceled, lock.ErrUnlocked)
		fresh := w.takeIn(context.WithoutCancel(ctx), a.Mutex("x").TryLock)
		isTrue(t, fresh.EntryPath() != h.EntryPath(), "entered again after the end")
		w.finish(fresh, y)
	})
}

func TestDo(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		m := a.Mutex("x")
		ctx := context.WithValue(w.ctx, key{}, "mine")

		// Do returns what f returns, and holds the lock meanwhile.
		failure := errors.New("no stock")
		err := m.Do(ctx, func(ctx context.Context) error {
			isTrue(t, ctx.Value(key{}) == "mine" && len(w.entries("x")) == 1, "value %v, entries %q", ctx.Value(key{}), paths(w.entries("x")))
			return m.Do(ctx, func(context.Context) error { return failure }) // reenters
		})
		mustBe(t, err, failure)
		mustBe(w, m.Do(ctx, func(context.Context) error { return nil }), nil)
		fails(w, m.Do(ctx, nil), lock.ErrInvalid, "function", "must not be nil")

		// The context of f ends with ctx.
		ctx2, cancel := context.WithCancelCause(ctx)
		cause := errors.New("shut down")
		err = m.Do(ctx2, func(inner context.Context) error {
			cancel(cause)
			<-inner.Done()
			return context.Cause(inner)
		})
		mustBe(t, err, cause)
		mustBe(t, m.Do(ctx2, func(context.Context) error { panic("called") }), context.Canceled, cause)

		// The context of f ends with the hold.
		err = a.Mutex("x", lock.WithMaxHold(ttl)).Do(ctx, func(inner context.Context) error {
			<-inner.Done()
			mustBe(t, context.Cause(inner), lock.ErrLost, lock.ErrMaxHold)
			return failure
		})
		mustBe(t, err, failure, lock.ErrLost, lock.ErrMaxHold)

		// A panic passes through, and Do unlocks.
		func() {
			defer func() {
				equal(w, "recovered", recover(), "oops")
			}()
			m.Do(ctx, func(context.Context) error { panic("oops") })
		}()
		w.empty()
	})
}

// TestTryDo: for each kind of lock, the function runs if the lock is free. If another client holds
// the lock, the function does not run and there is no error. An error of the function is returned.
func TestTryDo(t *testing.T) {
	type doing func(context.Context, func(context.Context) error) (bool, error)
	type kind struct {
		run   func(*lock.Client) doing
		other func(*lock.Client) taking // holds the lock in between
	}
	forEach(t, locktest.Options{}, map[string]kind{
		"Mutex":    {func(c *lock.Client) doing { return c.Mutex("x").TryDo }, holding},
		"barging":  {func(c *lock.Client) doing { return c.Mutex("x").WithBarging().TryDo }, holding},
		"All":      {func(c *lock.Client) doing { return c.All([]string{"w", "x"}).TryDo }, holding},
		"to write": {func(c *lock.Client) doing { return c.RWMutex("x").TryDo }, writing},
		"to read":  {func(c *lock.Client) doing { return c.RWMutex("x").TryRDo }, writing},
		"permits": {func(c *lock.Client) doing {
			return func(ctx context.Context, f func(context.Context) error) (bool, error) {
				return c.Semaphore("x", 5).TryDo(ctx, 3, f)
			}
		}, acquiring(3)},
	}, func(w *world, k kind) {
		a, b := w.dial("a"), w.dial("b")
		for _, want := range []error{nil, errors.New("no stock"), &lock.HeldError{Lock: "elsewhere"}} {
			ran, err := k.run(a)(w.ctx, func(ctx context.Context) error {
				isTrue(w, ctx.Err() == nil && len(w.entries("x")) == 1, "%v, entries %q", ctx.Err(), paths(w.entries("x")))
				return want
			})
			isTrue(w, ran && errors.Is(err, want), "ran %v, %v; want it to run, and %v", ran, err, want)
		}
		ran, err := k.run(a)(w.ctx, nil)
		isTrue(w, !ran && errors.Is(err, lock.ErrInvalid), "without a function: ran %v, %v", ran, err)
		w.empty()

		h := w.take(k.other(b))
		if ran, err := k.run(a)(w.ctx, unreachable); ran || err != nil {
			w.Errorf("while it is held: ran %v, %v", ran, err)
		}
		w.finish(h)
	})
}

// TestUnlockThatIsNotConfirmed: if no server confirms an Unlock in time, Unlock returns
// ErrUnavailable, and the client deletes the entry later, also after an outage that is longer than the TTL
// but shorter than the extended lease.
func TestUnlockThatIsNotConfirmed(t *testing.T) {
	each(t, "outage", []time.Duration{0, 3 * time.Minute}, func(w *world, outage time.Duration) {
		a := w.dial("a", lock.WithUnlockTimeout(2*time.Second))
		h := w.lock(a, "x")
		w.ok(h.Extend(w.ctx, 30*time.Minute))
		ch := w.queue(w.ctx, w.dial("b"), "x")
		w.Partition("a")
		before := time.Now()
		err := h.Unlock()
		mustBe(w, err, lock.ErrUnavailable, context.DeadlineExceeded)
		mustSay(w, err, `unlock "x": not confirmed`, h.EntryPath())
		atMost(w, "took", time.Since(before), 2500*time.Millisecond)
		atMost(w, "remaining after Unlock", h.Remaining(), 0)
		mustBe(w, h.Err(), lock.ErrUnlocked)
		time.Sleep(outage)
		w.waits(ch)
		w.Heal("a")
		time.Sleep(3 * time.Second) // less than the rest of its lease
		w.unlock(w.expect(ch).hold)
		mustSay(w, errors.New(w.logged()), "unlock not confirmed")
		w.empty()
	})
}

// TestMessagesAreBounded: the message of a HeldError has at most 3000 bytes, however long the texts
// and the name of the entry are. It is fit for a terminal.
func TestMessagesAreBounded(t *testing.T) {
	fit := (&lock.HeldError{Lock: "x", Entry: "/locks/x/e", Owner: "a\n\x1b[31m", Host: "größe-1", PID: 7}).Error()
	isTrue(t, !strings.ContainsAny(fit, "\n\x1b"), "%q", fit)
	mustSay(t, errors.New(fit), `"a\n\x1b[31m"`, "host größe-1,")
	much := strings.Repeat("ü", 100_000)
	for _, err := range []*lock.HeldError{{Lock: "x", Entry: "/locks/x/" + much}, {Lock: "x", Entry: "/locks/x/e", Owner: much, Host: much}} {
		got := err.Error()
		isTrue(t, len(got) <= 3000 && utf8.ValidString(got), "%d bytes: %.100q", len(got), got)
	}
	simulate(t, locktest.Options{}, func(w *world) {
		z := w.raw("stranger")
		w.create(z, "/locks", "", 0)
		w.create(z, "/locks/x", "", 0)
		w.create(z, "/locks/x/"+strings.Repeat("y", 200_000)+"-lock-", much, zk.FlagSequence)
		a := w.dial("a")
		_, err := a.Mutex("x").TryLock(w.ctx)
		mustBe(t, err, lock.ErrHeld)
		atMost(t, "bytes of the message", len(err.Error()), 3000)
	})
}

// TestMaxHold: each hold of a lock lasts for max_hold at most, also if it was extended. Of the policy's
// and the option's the shorter one counts, and a wait does not. Then the next client enters at once.
func TestMaxHold(t *testing.T) {
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
		h, ended := got.hold, w.end(got.hold)
		again := w.takeIn(h.Context(), a.Mutex("x").Lock)
		next := w.queue(w.ctx, b, "x")
		w.ok(h.Extend(w.ctx, 2*most))
		atMost(w, "remaining", h.Remaining(), most)
		inRange(w, "lasted", ended.wait().Sub(got.at), c.want-time.Millisecond, c.want+time.Millisecond)
		mustBe(w, h.Err(), lock.ErrLost, lock.ErrMaxHold)
		last := w.await(next)
		w.inTurn(ended, last)
		atMost(w, "the next one entered after the end", last.at.Sub(ended.wait()), time.Second)
		mustBe(w, second(a.Mutex("x").Lock(h.Context())), context.Canceled, lock.ErrLost, lock.ErrMaxHold) // not entered again
		mustBe(w, second(a.Mutex("x").TryLock(context.WithoutCancel(h.Context()))), lock.ErrHeld)
		for _, h := range []*lock.Hold{h, again} {
			mustBe(w, h.Unlock(), lock.ErrLost, lock.ErrMaxHold)
			mustBe(w, h.Unlock(), lock.ErrUnlocked)
		}
		w.finish(last.hold)
	})
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
		w.fault(func(r locktest.Request) bool { return writes("a", h.EntryPath())(r) && w.cutOff("a") }, fault)
		ctx := w.limited(time.Second)
		sent := time.Now()
		mustBe(w, h.Extend(ctx, 2*time.Second), context.DeadlineExceeded)
		atMost(w, "remain a second after the lease was shortened to two", h.Remaining(), time.Second)
		ch := w.queue(w.ctx, b, "x")
		inRange(w, "the shortened lease ended after", ended.wait().Sub(sent), 1900*time.Millisecond, 2*time.Second)
		w.inTurn(ended, w.await(ch))
	})
}
