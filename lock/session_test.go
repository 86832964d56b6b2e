// Expired sessions and outages of all lengths: no hold and no place is lost; what the log tells.

package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestNothingIsLost: expired sessions, cut connections, and a server that is away for less than the
// TTL cost no hold and no place in the queue.
func TestNothingIsLost(t *testing.T) {
	flap := func(befalls func(w *world, label string), every time.Duration, times int, whose ...string) func(*world, func()) {
		return func(w *world, check func()) {
			for range times {
				for _, labels := range whose {
					for _, label := range strings.Fields(labels) {
						befalls(w, label)
					}
					time.Sleep(every)
					check()
				}
			}
		}
	}
	expire := func(w *world, label string) { w.ExpireLabel(label) }
	forEach(t, locktest.Options{}, map[string]func(w *world, check func()){
		"the holder's session, once":         flap(expire, 5*time.Second, 1, "a"),
		"the holder's session, each second":  flap(expire, time.Second, 40, "a"),
		"the waiters' sessions, once":        flap(expire, 5*time.Second, 1, "b c"),
		"the waiters' sessions, each second": flap(expire, time.Second, 40, "b c"),
		"all sessions at once":               flap(expire, 2*time.Second, 20, "a b c"),
		"one session after the other":        flap(expire, 1400*time.Millisecond, 10, "a", "b", "c"),
		"connections are cut, sessions live": flap(func(w *world, label string) { w.Cut(label) }, 1500*time.Millisecond, 10, "a b"),
		"the server restarts": func(w *world, check func()) {
			server := w.Servers()[0]
			for range 3 {
				w.ok(w.Stop(server))
				time.Sleep(4 * time.Second)
				w.ok(w.Start(server))
				time.Sleep(4 * time.Second)
				check()
			}
		},
		"the network stalls": func(w *world, check func()) {
			w.Partition("a")
			w.Partition("b")
			time.Sleep(5 * time.Second)
			w.Heal("a")
			w.Heal("b")
			time.Sleep(5 * time.Second)
			check()
		},
	}, func(w *world, befalls func(w *world, check func())) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		h := w.lock(a, "x")
		second, third := w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")
		before := paths(w.entries("x"))
		befalls(w, func() {
			w.alive(h)
			w.waits(second, third)
		})
		isTrue(w, slices.Equal(before, paths(w.entries("x"))), "entries were %q and are %q", before, paths(w.entries("x")))
		w.nothingLost(a, b, c)
		w.unlock(h)
		got := w.await(second)
		w.waits(third)
		w.unlock(got.hold)
		w.finish(w.await(third).hold)
	})
}

// TestLongOutageOfEverything: after an outage of the server, even of ten TTLs, no waiter purges
// another waiter's entry before that waiter could renew it. The waiters enter in order.
func TestLongOutageOfEverything(t *testing.T) {
	each(t, "length", []time.Duration{ttl / 2, ttl, 2 * ttl, 10 * ttl}, func(w *world, length time.Duration) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		h := w.lock(a, "x")
		ended := w.end(h)
		second, third := w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")
		server := w.Servers()[0]
		w.ok(w.Stop(server))
		time.Sleep(length)
		w.ok(w.Start(server))
		if length < ttl/2+time.Second {
			time.Sleep(ttl)
			w.alive(h)
			w.unlock(h)
		}
		got := w.await(second)
		w.inTurn(ended, got)
		time.Sleep(2 * ttl)
		w.waits(third)
		w.alive(got.hold)
		for _, c := range []*lock.Client{b, c} {
			atMost(w, "places lost", c.Stats().Requeued, 0)
		}
		w.unlock(got.hold)
		w.unlock(w.await(third).hold)
		if err := h.Unlock(); err != nil && !errors.Is(err, lock.ErrLost) && !errors.Is(err, lock.ErrUnlocked) {
			w.Error(err)
		}
		w.empty()
	})
}

// TestFirstToReconnectWaitsForTheOthers: after an outage of all clients, the last waiter reconnects
// before the waiter ahead, whose entry looks expired. The last waiter does not purge that entry.
func TestFirstToReconnectWaitsForTheOthers(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		const ttl = 30 * time.Second // a third of it suffices to connect again
		p := lock.WithPolicies(policies{TTL: ttl, Grace: grace})
		a, b, c := w.dial("a", p), w.dial("b", p), w.dial("c", p)
		h := w.lock(a, "x")
		second, third := w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")
		for _, l := range []string{"a", "b", "c"} {
			w.Partition(l)
		}
		time.Sleep(ttl + grace - time.Second)
		w.Heal("c")
		time.Sleep(time.Second + ttl/8)
		w.Heal("b")
		<-h.Context().Done()
		w.Heal("a")
		got := w.await(second)
		w.waits(third)
		equal(t, "places lost", b.Stats().Requeued, 0)
		w.unlock(got.hold)
		w.finish(w.await(third).hold)
	})
}

// TestWaiterWithOldLeaseWritesBeforeItEnters: if a waiter could not renew its entry for so long
// that it was purged, the waiter does not enter, but queues again.
func TestWaiterWithOldLeaseWritesBeforeItEnters(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b, c := w.dial("a"), w.dial("b"), w.dial("c")
		h := w.lock(a, "x")
		second, third := w.queue(w.ctx, b, "x"), w.queue(w.ctx, c, "x")
		w.faults(func(r locktest.Request) bool { return mutates(r, "b") }, locktest.Fault{Code: codeThrottled})
		w.until("the second one is purged", func() bool { return c.Stats().Purged == 1 })
		w.unlock(h)
		time.Sleep(ttl)
		got := w.expect(third)
		w.waits(second)
		w.Intercept(nil)
		w.until("it queues again", func() bool { return b.Stats().Requeued == 1 })
		w.alive(got.hold)
		w.unlock(got.hold)
		w.finish(w.await(second).hold)
	})
}

// TestLockDuringOutage: Lock waits for a server. If its context ends before a server answers, the
// error is ErrUnavailable.
func TestLockDuringOutage(t *testing.T) {
	each(t, "known", bools, func(w *world, known bool) { // the client knows time and parent
		a := w.dial("a")
		if known {
			w.unlock(w.lock(a, "x"))
		}
		for _, cut := range []func(){func() { w.Partition("a") }, func() { w.Stop(w.Servers()[0]) }} {
			cut()
			time.Sleep(sessionTimeout)
			for _, take := range []taking{a.Mutex("x").Lock, a.Mutex("x").TryLock} {
				_, err := take(w.limited(5 * time.Second))
				mustBe(w, err, context.DeadlineExceeded, lock.ErrUnavailable)
				mustSay(w, err, `lock "x"`, "no session with ZooKeeper")
			}
			ch := start(func() (*lock.Hold, error) { return a.Mutex("x").Lock(w.ctx) })
			time.Sleep(ttl)
			w.waits(ch)
			w.Heal("a")
			w.Start(w.Servers()[0])
			w.unlock(w.await(ch).hold)
		}
		w.empty()
	})
}

// TestOutageWhileTheGrantIsRecorded: if the lease of a leader ends before the write of its
// grant has returned, the client waits for another turn. Then the hold has the whole lease.
func TestOutageWhileTheGrantIsRecorded(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		ch := w.campaign(w.ctx, b, "b")
		entry := w.entries("x")[1].Path
		time.Sleep(ttl / 6) // no renewal is due
		records := func(r locktest.Request) bool { return writes("b", entry)(r) && w.cutOff("b") }
		hit := w.fault(records, locktest.Fault{Drop: locktest.BeforeApply})
		w.unlock(h)
		w.until("the grant is being recorded", hit)
		time.Sleep(2 * ttl)
		w.waits(ch)
		w.Heal("b")
		got := w.await(ch)
		isTrue(t, got.hold.Remaining() >= ttl-ttl/50, "%v remain", got.hold.Remaining())
		w.sole(got.hold)
		w.finish(got.hold)
	})
}

// warnings returns the log lines of level info and above since its last call.
func (w *world) warnings() (all []map[string]any) {
	w.Helper()
	for line := range strings.Lines(w.logged()) {
		var fields map[string]any
		err := json.Unmarshal([]byte(line), &fields)
		isTrue(w, err == nil, "%s: %v", line, err)
		if fields["level"] != "debug" {
			all = append(all, fields)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log.Reset()
	return all
}

// TestOutageIsLoggedOnce: there is one line when the outage begins, one when the first hold becomes
// at risk, and one at the end with the number of holds at risk, however many holds there are.
func TestOutageIsLoggedOnce(t *testing.T) {
	eachPair(t, "own silent", bools, bools, func(w *world, own, silent bool) {
		const holds, ttl, lasts = 100, 21 * time.Second, 11500 * time.Millisecond
		a := w.clientOn(!own, "a", lock.WithPolicies(policies{TTL: ttl, Grace: grace}))
		for i := range holds {
			w.lock(a, fmt.Sprint("x", i))
			time.Sleep(ttl / 3 / holds) // they are not renewed together
		}
		w.warnings()
		begin, end, server := w.Stop, w.Start, w.Servers()[0]
		if silent {
			begin, end = func(string) error { return w.Partition("a") }, func(string) error { w.Heal("a"); return nil }
		}
		w.ok(begin(server))
		time.Sleep(lasts)
		w.ok(end(server))
		time.Sleep(ttl)
		lines := w.warnings()
		equal(w, "lines", len(lines), 3)
		one := func(message string, want map[string]any) (got map[string]any) {
			for _, line := range lines {
				if !strings.HasPrefix(line["message"].(string), message) {
					continue
				}
				for key, value := range want {
					isTrue(w, got == nil && line[key] == value, "%v is a second line, or has not %s %v", line, key, value)
				}
				got = line
			}
			mustBeTrue(w, got != nil, "no line %q among %d, the first of which are %v", message, len(lines), lines[:min(5, len(lines))])
			return got
		}
		one("ZooKeeper is away", map[string]any{"holds": 100.})
		risk := one("holds at risk", map[string]any{"holds": 100.})
		if why := risk["why"]; why != "there is no session with ZooKeeper" && (!silent || why != "ZooKeeper does not answer") {
			w.Errorf("at risk because %v", why)
		}
		back := one("ZooKeeper is back", map[string]any{"holds_at_risk": 100., "holds_lost": 0.})
		away, err := time.ParseDuration(back["away_for"].(string))
		isTrue(w, err == nil && away >= lasts-sessionTimeout && away <= lasts+2*time.Second, "it was away for %v: %v", away, err)
	})
}

// TestOutageIsLoggedAgain: while an outage lasts, the log says so again after a quarter of a minute, and then
// whenever it has lasted twice as long: a server that is restarted with another certificate refuses
// connections first, and the log must soon say what is wrong now.
func TestOutageIsLoggedAgain(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		w.dial("a")
		w.warnings()
		w.ok(w.Stop(w.Servers()[0]))
		time.Sleep(70 * time.Second)
		var after []time.Duration
		for _, line := range w.warnings() {
			if !strings.HasPrefix(line["message"].(string), "ZooKeeper is away") {
				continue
			}
			away, err := time.ParseDuration(line["away_for"].(string))
			isTrue(w, err == nil && line["last_failure"] != nil, "%v: %v", line, err)
			after = append(after, away.Round(10*time.Second))
		}
		equal(w, "lines", fmt.Sprint(after), "[0s 20s 30s 1m10s]")
		w.ok(w.Start(w.Servers()[0]))
	})
}

// TestRiskWithoutOutage: if renewals fail without an outage, or max_hold is near, each hold at risk
// has its own log line with the cause.
func TestRiskWithoutOutage(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, MaxHold: 3 * ttl}))
		for _, name := range []string{"x", "y"} {
			w.lock(a, name)
		}
		w.faults(func(r locktest.Request) bool { return mutates(r, "a") }, locktest.Fault{Code: codeNoAuth})
		w.warnings()
		time.Sleep(3 * ttl / 4)
		w.Intercept(nil)
		logged := func(why string) (n int) {
			for _, line := range w.warnings() {
				if strings.HasPrefix(line["message"].(string), "hold at risk: ") && line["why"] == why {
					n++
				}
			}
			return n
		}
		equal(w, "lines", logged("renewals failed, or were not made in time"), 2)
		time.Sleep(2*ttl - ttl/4)
		equal(w, "lines", logged("max_hold is near"), 2)
	})
}

// TestOutageCountsItsOwnHolds: the line at the end of an outage does not count holds that ended, or
// were at risk, before the outage. Connections that break for a moment, after an earlier risk, cause no
// line.
func TestOutageCountsItsOwnHolds(t *testing.T) {
	subtest(t, "lost before", locktest.Options{}, func(w *world) {
		a := w.dial("a")
		for i := range 5 {
			w.lock(a, fmt.Sprint("x", i))
		}
		w.faults(func(r locktest.Request) bool { return mutates(r, "a") }, locktest.Fault{Code: codeQuota})
		time.Sleep(2 * ttl)
		w.Intercept(nil)
		equal(w, "expired holds", a.Stats().Lost, 5)
		w.warnings()
		w.ok(w.Stop(w.Servers()[0]))
		time.Sleep(2 * time.Second)
		w.ok(w.Start(w.Servers()[0]))
		time.Sleep(sessionTimeout)
		lines := w.warnings()
		back := lines[len(lines)-1]
		isTrue(w, back["message"] == "ZooKeeper is back" && back["holds_at_risk"] == 0. && back["holds_lost"] == 0., "%v", back)
	})
	subtest(t, "at risk before", locktest.Options{}, func(w *world) {
		const ttl = sessionTimeout / 2
		a := w.dial("a")
		h := w.lock(a, "x", lock.WithTTL(ttl))
		w.warnings()
		w.ok(w.Partition("a"))
		<-h.AtRisk()
		w.Heal("a")
		time.Sleep(ttl)
		lines := w.warnings()
		isTrue(w, len(lines) == 1 && lines[0]["why"] == "ZooKeeper does not answer", "%v", lines)
		for range 20 {
			w.Cut("a")
			time.Sleep(time.Second)
		}
		equal(w, "lines of a connection that broke", fmt.Sprint(w.warnings()), "[]")
	})
}
