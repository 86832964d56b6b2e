// Clocks: of clients, with wrong rates, steps and sleep, and of ZooKeeper's leaders.

package lock_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestWallClocksDoNotMatter: clients whose wall clocks are hours off hand the lock over, and a dead
// holder's entry is purged after TTL and grace.
func TestWallClocksDoNotMatter(t *testing.T) {
	offs := []time.Duration{-7 * time.Hour, 0, 7 * time.Hour}
	eachPair(t, "off", offs, offs, func(w *world, offA, offB time.Duration) {
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

// TestClocksRunWrong: the clocks of holder and waiter run slow or fast, up to the allowed error.
// The holder knows of its loss before the waiter enters, and the waiter enters within a second
// after TTL and grace. The leases are long, so that an error would show.
func TestClocksRunWrong(t *testing.T) {
	each(t, "ppm", [][2]int64{{-500, 500}, {-300, 300}, {500, -500}, {300, -300}, {-499, -499}, {499, 499}}, func(w *world, ppm [2]int64) {
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

// offs has the differences of a new leader's clock from the previous one's.
var offs = []time.Duration{-time.Hour, -90 * time.Second, 90 * time.Second, time.Hour}

const (
	election = 500 * time.Millisecond // time without a leader

	// blocked is the longest time for which a dead holder may block. It includes a third of the TTL
	// for a waiter that had no session meanwhile, and the time of elections and of a connection.
	blocked = ttl + grace + ttl/3 + 2*election + 2*time.Second
)

// forEachOff runs f for each difference in a world of its own, with three members.
func forEachOff(t *testing.T, f func(w *world, off time.Duration)) {
	for _, off := range offs {
		subtest(t, off.String(), locktest.Options{Members: 3, ElectionTime: election}, func(w *world) { f(w, off) })
	}
}

// elect replaces the leader by a member whose clock is ahead of the test's by the duration clock.
// The old leader returns as a follower.
func (w *world) elect(clock time.Duration) {
	w.Helper()
	old := w.Leader()
	for _, s := range w.followers() {
		w.ok(w.SetClock(s, clock))
	}
	w.StopLeader()
	w.until("there is a leader", func() bool { return w.Leader() != "" })
	w.ok(w.Start(old))
}

// TestEntriesGetTheStampOfANewLeader: within a second of an election all live entries are written
// under the new leader, although no renewal is due.
func TestEntriesGetTheStampOfANewLeader(t *testing.T) {
	forEachOff(t, func(w *world, off time.Duration) {
		a, b := w.dial("a"), w.dial("b")
		var holds []*lock.Hold
		for i := range 20 {
			holds = append(holds, w.lock(a, fmt.Sprint("x", i)))
		}
		w.queue(w.ctx, b, "x0")
		before := znode.Epoch(w.entries("x0")[0].Stat.Mzxid)
		w.elect(off)
		time.Sleep(time.Second)
		for _, h := range holds {
			for _, e := range w.entries(h.Name()) {
				epoch := znode.Epoch(e.Stat.Mzxid)
				isTrue(t, epoch > before, "%s was written in epoch %d, want a later one", e.Path, epoch)
			}
			w.unlock(h)
		}
	})
}

// TestNewcomersAfterAnElection: clients that first see an entry after an election do not judge its
// holder dead, however far the new leader's clock is off.
func TestNewcomersAfterAnElection(t *testing.T) {
	forEachOff(t, func(w *world, off time.Duration) {
		a, known := w.dial("a"), w.dial("known")
		w.unlock(w.lock(known, "other")) // learns the old leader's clock
		var holds []*lock.Hold
		var queue []<-chan taken
		for i := range 10 {
			holds = append(holds, w.lock(a, fmt.Sprint("x", i)))
			time.Sleep(ttl / 30)
		}
		w.elect(off)
		unknown := w.dial("unknown")
		for i, h := range holds {
			for _, c := range []*lock.Client{known, unknown} {
				got, err := c.Mutex(h.Name()).TryLock(w.ctx)
				mustBe(w, err, lock.ErrHeld)
				if got != nil {
					w.unlock(got)
				}
				if i%2 == 0 {
					queue = append(queue, start(func() (*lock.Hold, error) { return c.Mutex(h.Name()).Lock(w.ctx) }))
				}
			}
		}
		time.Sleep(3 * ttl)
		w.alive(holds...)
		w.waits(queue...)
		w.unlock(holds...)
		for _, ch := range queue {
			w.unlock(w.await(ch).hold)
		}
		w.empty()
	})
}

// TestHolderThatDiedBeforeAnElection: after an election a dead holder blocks for at most the
// constant blocked, and for no less than its own lease.
func TestHolderThatDiedBeforeAnElection(t *testing.T) {
	forEachOff(t, func(w *world, off time.Duration) {
		for i, newcomer := range []bool{false, true} {
			label := fmt.Sprint("dead, newcomer ", newcomer)
			h := w.lock(w.dial(label), "x")
			ended := w.end(h)
			var ch <-chan taken
			if !newcomer {
				ch = w.queue(w.ctx, w.dial("waiter"), "x")
			}
			w.kill(label)
			time.Sleep(time.Second)
			w.elect(time.Duration(i+1) * off)
			elected := time.Now()
			if newcomer {
				c := w.dial("newcomer")
				ch = start(func() (*lock.Hold, error) { return c.Mutex("x").Lock(w.ctx) })
			}
			got := w.await(ch)
			w.inTurn(ended, got)
			atMost(w, "purged after the election", got.at.Sub(elected), blocked)
			w.Heal(label)
			w.finish(got.hold)
		}
	})
}

// TestElectionsFasterThanALease: if no leader of the ensemble leads for as long as a lease and the
// grace, a waiter decides by its own clock. It purges a dead holder, and no live one. A waiter for
// permits does so although no session of its lasts so long either.
func TestElectionsFasterThanALease(t *testing.T) {
	for _, how := range []string{"queues", "barges", "permits"} {
		t.Run(how, func(t *testing.T) {
			forEachOff(t, func(w *world, off time.Duration) {
				a, b, dead := w.dial("a"), w.dial("b"), w.dial("dead")
				take := func(c *lock.Client) taking {
					switch how {
					case "barges":
						return c.Mutex("gone").WithBarging().Lock
					case "permits":
						return permits(c.Semaphore("gone", 1), 1)
					}
					return c.Mutex("gone").Lock
				}
				living, gone := w.lock(a, "living"), w.take(take(dead))
				ended, waits := w.end(gone), w.queue(w.ctx, b, "living")
				ch := w.callers(w.ctx, 1, take(b))[0]
				time.Sleep(ttl)
				w.kill("dead")
				died := time.Now()
				over := async(func() error {
					for i := range 10 {
						w.elect([]time.Duration{off, 0, -off}[i%3])
						if how == "permits" {
							w.ExpireLabel("b")
						}
						time.Sleep(ttl/2 - election)
					}
					return nil
				})
				got := w.await(ch)
				w.inTurn(ended, got)
				atMost(w, "purged after it died", got.at.Sub(died), blocked)
				w.ok(<-over)
				w.waits(waits)
				w.alive(living)
				w.unlock(got.hold, living)
				w.finish(w.await(waits).hold)
			})
		})
	}
}

// TestLeaderSteppedWhileItLeads: the leader's clock steps by more than the grace. A client that
// sampled the clock before detects the step, and judges no live entry dead. After the step, a dead
// holder blocks for at most TTL, grace and two seconds.
func TestLeaderSteppedWhileItLeads(t *testing.T) {
	each(t, "step", offs, func(w *world, step time.Duration) {
		a, b, dead := w.dial("a"), w.dial("b"), w.dial("dead")
		living, gone := w.lock(a, "living"), w.lock(dead, "gone")
		waits := w.queue(w.ctx, b, "living")
		ended, ch := w.end(gone), w.queue(w.ctx, b, "gone")
		w.kill("dead")
		w.StepClock(step)
		stepped := time.Now()
		for range 20 { // each round takes a sample, some before the holder's renewal
			mustBe(w, second(b.Mutex("living").TryLock(w.ctx)), lock.ErrHeld)
			w.unlock(w.lock(b, "other"))
			time.Sleep(ttl / 10)
		}
		w.waits(waits)
		w.alive(living)
		got := w.await(ch)
		w.inTurn(ended, got)
		atMost(w, "purged after the step", got.at.Sub(stepped), ttl+grace+2*time.Second)
		w.unlock(got.hold)
		time.Sleep(ttl)
		w.waits(waits)
		w.alive(living)
		w.handOver(living, waits)
	})
}

// TestSmallStepsOfTheLeader: each step is less than the grace, but their sum is much more. A live
// holder keeps the lock. The hold of a dead holder ends before the next client enters.
func TestSmallStepsOfTheLeader(t *testing.T) {
	steps := []time.Duration{-900 * time.Millisecond, -400 * time.Millisecond, 400 * time.Millisecond, 900 * time.Millisecond}
	eachPair(t, "step", steps, []time.Duration{50 * time.Millisecond, ttl/2 + 100*time.Millisecond}, func(w *world, step, pause time.Duration) {
		a, b := w.dial("a"), w.dial("b")
		living := w.lock(a, "living")
		ended := w.end(living)
		waits := w.queue(w.ctx, b, "living")
		w.unlock(w.lock(b, "other"))
		for range 30 {
			w.StepClock(step)
			w.unlock(w.lock(b, "other")) // takes a sample
			mustBe(w, second(b.Mutex("living").TryLock(w.ctx)), lock.ErrHeld)
			time.Sleep(pause)
		}
		w.waits(waits)
		w.alive(living)
		w.kill("a")
		w.StepClock(step)
		got := w.await(waits)
		w.inTurn(ended, got)
		w.Heal("a")
		w.finish(got.hold)
	})
}

// TestChangeOfLeaders: the new leader's clock differs by less than the grace. No holder loses its
// lock. A client counts and logs displacements of the leader's clock if the clocks differ, and none
// otherwise.
func TestChangeOfLeaders(t *testing.T) {
	for _, off := range []time.Duration{-900 * time.Millisecond, 0, 900 * time.Millisecond} {
		subtest(t, fmt.Sprint("off ", off), locktest.Options{Members: 3, ElectionTime: 500 * time.Millisecond}, func(w *world) {
			for i, s := range w.Servers() {
				w.ok(w.SetClock(s, time.Duration(i)*off))
			}
			a, b := w.dial("a"), w.dial("b")
			h := w.lock(a, "x")
			ch := w.queue(w.ctx, b, "x")
			down := w.StopLeader()
			w.until("there is a leader", func() bool { return w.Leader() != "" })
			w.ok(w.Start(down))
			time.Sleep(ttl)
			w.alive(h)
			w.waits(ch)
			n := a.Stats().Displacements
			isTrue(w, (n == 0) == (off == 0), "clocks %v apart: %d displacements counted", off, n)
			equal(w, "warned", strings.Contains(w.logged(), "was displaced"), (off != 0))

			// Then the holder dies, and the leader changes again before the lease ends.
			ended := w.end(h)
			w.kill("a")
			time.Sleep(ttl / 2)
			w.StopLeader()
			got := w.await(ch)
			w.inTurn(ended, got)
			w.unlock(got.hold)
		})
	}
}

// TestExpiryIsTold: the end of a dead holder's lease is told in the time of the present leader: an
// entry of an earlier term counts from the term's beginning, however far the clocks differ.
func TestExpiryIsTold(t *testing.T) {
	forEachOff(t, func(w *world, off time.Duration) {
		b := w.dial("b")
		w.die("a", w.lock(w.dial("a"), "x").EntryPath())
		w.elect(off)
		elected := time.Now().Add(off)
		w.until("it knows the new leader's clock", func() bool {
			now, err := admin.New(b).Now(w.ctx)
			return err == nil && znode.Epoch(now.Zxid) == 2
		})
		held := heldError(w, second(b.Mutex("x").TryLock(w.ctx)))
		inRange(w, "the lease ends after the election", held.Expires.Sub(elected), 0, ttl+2*time.Second)
		h := w.lock(b, "x")
		purged := time.Now().Add(off)
		m := regexp.MustCompile(`"expired":"([^"]+)"`).FindStringSubmatch(w.logged())
		mustBeTrue(w, m != nil, "no purge is logged: %s", w.logged())
		at, err := time.Parse(time.RFC3339Nano, m[1])
		w.ok(err)
		inRange(w, "from the election to the end of the lease that is logged", at.Sub(elected), 0, purged.Sub(elected))
		w.unlock(h)
	})
}
