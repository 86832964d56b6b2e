// The log of an outage, and of holds at risk.

package lock_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

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
	for _, own := range []bool{true, false} {
		for _, silent := range []bool{true, false} {
			t.Run(fmt.Sprintf("own %v, silent %v", own, silent), func(t *testing.T) {
				simulate(t, locktest.Options{}, func(w *world) { w.logsOutageOnce(own, silent) })
			})
		}
	}
}

func (w *world) logsOutageOnce(own, silent bool) {
	const holds, ttl, lasts = 100, 21 * time.Second, 11500 * time.Millisecond
	take := w.dial
	if !own {
		take = w.borrow
	}
	a := take("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace}))
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

// TestBriefOutageIsNoWarning: short losses of the connection are not logged above level debug.
func TestBriefOutageIsNoWarning(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		w.lock(a, "x")
		w.warnings()
		for range 20 {
			w.Cut("a")
			time.Sleep(ttl / 10)
		}
		equal(t, "warnings", len(w.warnings()), 0)
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
		var denied atomic.Bool
		denied.Store(true)
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if denied.Load() && r.Label == "a" && (r.Op == "setData" || r.Op == "multi") {
				return locktest.Fault{Code: -102} // NoAuth
			}
			return locktest.Fault{}
		})
		w.warnings()
		time.Sleep(3 * ttl / 4)
		denied.Store(false)
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
// were at risk, before the outage. A connection that breaks for a moment after an earlier risk
// causes no line.
func TestOutageCountsItsOwnHolds(t *testing.T) {
	subtest(t, "lost before", locktest.Options{}, func(w *world) {
		a := w.dial("a")
		for i := range 5 {
			w.lock(a, fmt.Sprint("x", i))
		}
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if mutates(r, "a") {
				return locktest.Fault{Code: codeQuota}
			}
			return locktest.Fault{}
		})
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
		w.Cut("a")
		time.Sleep(ttl)
		equal(w, "lines of a connection that broke", fmt.Sprint(w.warnings()), "[]")
	})
}
