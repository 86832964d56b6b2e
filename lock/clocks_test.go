// Clocks of clients: wrong rates, steps of the wall clock, suspended machines.

package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestWallClocksDoNotMatter: clients whose wall clocks are hours off hand the lock over, and a dead
// holder's entry is purged after TTL and grace.
func TestWallClocksDoNotMatter(t *testing.T) {
	offs := []time.Duration{-7 * time.Hour, 0, 7 * time.Hour}
	for _, offA := range offs {
		for _, offB := range offs {
			subtest(t, fmt.Sprint(offA, offB), locktest.Options{}, func(w *world) {
				a := w.client("a", lock.WithClock(newClock(0, offA).now))
				b := w.client("b", lock.WithClock(newClock(0, offB).now))
				h := w.lock(a, "x")
				ch := w.queue(w.ctx, b, "x")
				time.Sleep(2 * ttl)
				w.alive(h)
				w.waits(ch)
				h = w.pass(h, ch)
				ch = w.queue(w.ctx, a, "x")
				got := w.outlived("b", h, ch, 0, 20*time.Millisecond)
				w.unlock(got.hold)
			})
		}
	}
}

// TestClocksRunWrong: the clocks of holder and waiter run slow or fast, up to the allowed error.
// The holder knows of its loss before the waiter enters, and the waiter enters within a second
// after TTL and grace. The leases are long, so that an error would show.
func TestClocksRunWrong(t *testing.T) {
	for _, ppm := range [][2]int64{{-500, 500}, {-300, 300}, {500, -500}, {300, -300}, {-499, -499}, {499, 499}} {
		subtest(t, fmt.Sprint("ppm ", ppm), locktest.Options{}, func(w *world) {
			const long = 10 * time.Minute
			p := lock.WithPolicies(policies{TTL: long, Grace: lock.MinGrace, LocalWindow: window})
			a := w.client("a", p, lock.WithClock(newClock(ppm[0], 0).now))
			b := w.client("b", p, lock.WithClock(newClock(ppm[1], 0).now))
			h := w.lock(a, "x")
			ended := w.end(h)
			ch := w.queue(w.ctx, b, "x")
			time.Sleep(3 * long)
			w.alive(h)
			w.waits(ch)
			d := w.die("a", h.EntryPath())
			got, knew := w.await(ch), ended.wait()
			isTrue(w, knew.Before(got.at), "the holder knew at %v, the next one entered at %v", knew, got.at)
			late := got.at.Sub(time.UnixMilli(d.end)) - lock.MinGrace
			isTrue(w, late > 0 && late <= time.Second, "purged %v after the TTL and the grace", late)
			// The holder knew of its loss before its TTL was over by the leader's clock, not only
			// before the end of the grace.
			n := knew.UnixMilli()
			isTrue(w, n < d.end, "the holder knew %d ms after the end of its TTL", n-d.end)
			w.unlock(got.hold)
		})
	}
}

// TestWallClockSetForward: a forward step of the wall clock counts as elapsed time, because it may
// be a suspend. If the lease has ended only by the step, a renewal confirms the hold.
func TestWallClockSetForward(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := newClock(0, 0)
		a := w.client("a", lock.WithClock(c.now))
		h := w.lock(a, "x")
		w.alive(h)
		c.step(ttl / 5)
		inRange(t, "remaining", h.Remaining(), ttl/2, ttl-ttl/5)
		c.step(ttl)
		equal(t, "remaining after a suspend that was longer than the lease", h.Remaining(), 0)
		again, err := a.Mutex("x").TryLock(h.Context()) // after a renewal has confirmed the hold
		w.ok(err)
		w.unlock(again)
		w.alive(h)
		equal(w, "renewals", a.Stats().Renewals, 1)
		mustBe(w, second(a.Mutex("x").TryLock(h.Context())), nil)
		w.unlock(h)
	})
}

func TestWallClockSetBackMeansNothing(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := newClock(0, 0)
		a, b := w.client("a", lock.WithClock(c.now)), w.client("b")
		h := w.lock(a, "x")
		ch := w.queue(w.ctx, b, "x")
		time.Sleep(time.Second)
		c.step(-time.Hour)
		isTrue(t, h.Remaining() >= ttl/2, "%v remain after the wall clock was set back", h.Remaining())
		equal(w, "renewals", a.Stats().Renewals, 0)
		time.Sleep(2 * ttl)
		w.alive(h)
		h = w.pass(h, ch)
		ch = w.queue(w.ctx, a, "x")
		c.step(-time.Hour)
		w.finish(w.pass(h, ch))
	})
}

// TestSuspendedHolder: the holder's machine sleeps while another client enters. Afterwards the hold
// has ended for Remaining, Err and Unlock, although the machine's monotonic clock shows much time
// left.
func TestSuspendedHolder(t *testing.T) {
	each(t, "unlocks", bools, func(w *world, unlocks bool) {
		c := newClock(0, 0)
		h := w.lock(w.client("a", lock.WithClock(c.now)), "x")
		ended := w.end(h)
		ch := w.queue(w.ctx, w.client("b"), "x")
		d := dead{h.EntryPath(), w.node(h.EntryPath()).Stat.Mtime + ttl.Milliseconds()}
		w.Freeze("a")
		c.suspend(true)
		got := w.await(ch)
		w.purged(d, got.at, 0, 20*time.Millisecond)
		c.suspend(false)
		isTrue(w, unlocks || h.Remaining() == 0, "valid while another client holds")
		w.Thaw("a")
		if !unlocks {
			ended.wait()
			mustBe(w, h.Err(), lock.ErrLost)
		}
		mustBe(w, h.Unlock(), lock.ErrLost, lock.ErrExpired)
		w.alive(got.hold)
		w.finish(got.hold)
	})
}

// TestSuspendedWaiter: if the waiter's machine sleeps while another client purges its entry and
// enters, the waiter queues again.
func TestSuspendedWaiter(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := newClock(0, 0)
		a, b, other := w.client("a"), w.client("b", lock.WithClock(c.now)), w.client("c")
		h := w.lock(a, "x")
		second := w.queue(w.ctx, b, "x")
		third := w.queue(w.ctx, other, "x")
		w.Freeze("b")
		c.suspend(true)
		time.Sleep(time.Second)
		w.unlock(h)
		got := w.await(third) // third has purged the second entry
		c.suspend(false)
		w.Thaw("b")
		time.Sleep(ttl)
		w.waits(second)
		w.alive(got.hold)
		equal(t, "queued again", b.Stats().Requeued, 1)
		w.unlock(got.hold)
		w.finish(w.await(second).hold)
	})
}
