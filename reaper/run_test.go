package reaper_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// lines returns the log lines with the message msg.
func (w *world) lines(msg string) (lines []map[string]any) {
	w.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(w.logged())))
	for d.More() {
		var line map[string]any
		iferr.Fatal(w, d.Decode(&line))
		if line["message"] == msg {
			lines = append(lines, line)
		}
	}
	return lines
}

// one returns the only log line with the message msg. Any other number of lines ends the test.
func (w *world) one(msg string) map[string]any {
	w.Helper()
	lines := w.lines(msg)
	if len(lines) != 1 {
		w.Fatalf("%d lines say %q, want one", len(lines), msg)
	}
	return lines[0]
}

// run runs a reaper until stop is called.
func (w *world) run(r *reaper.Reaper) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		w.Helper()
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("Run after its context ended: %v", err)
		}
	}
}

// TestFrozenFor17Seconds: an outage of 17 s has one log line when the session is lost, and one when it
// is back. The status shows the outage. After it the reaper sweeps. Run can be stopped during the next
// outage without an error.
func TestFrozenFor17Seconds(t *testing.T) {
	simulate(t, func(w *world) {
		r := w.reaper("reaper", reaper.Options{Schedule: "@every 1m"})
		stop := w.run(r)
		time.Sleep(10 * time.Second)
		w.Partition("reaper")
		time.Sleep(17 * time.Second)
		if s := r.Monitor().Status(); s.State != reaper.Disconnected || s.Session.Connected || s.Session.Losses != 1 || s.Session.LastFailure == "" {
			t.Errorf("while it is frozen: %+v", s)
		}
		w.one("session with ZooKeeper lost: this reaper sweeps nothing until it is back")
		w.Heal("reaper")
		time.Sleep(10 * time.Second)
		if line := w.one("session with ZooKeeper is back"); line["level"] != "info" || line["without_session"] == "" {
			t.Errorf("%v", line)
		}
		s := r.Monitor().Status()
		if s.State != reaper.Active || !s.Session.Connected || s.Session.Away < 5 || s.Session.Away > 25 || s.Session.LastFailure != "" {
			t.Errorf("after it: %+v", s)
		}
		w.dead(w.raw("others"), "a")
		time.Sleep(2 * time.Minute)
		if got := w.paths(); slices.Contains(got, "/a") {
			t.Errorf("left after the outage: %q", got)
		}
		w.Partition("reaper")
		stop() // before its lease ends
		w.Heal("reaper")
		w.one("stopped without a session: its entry is left to expire, and another reaper is active after the TTL and the grace of its policy")
	})
}

// TestErrorThatPasses: an error of the servers that can pass does not end Run. The reaper is active soon after.
func TestErrorThatPasses(t *testing.T) {
	for name, code := range map[string]int32{"the server failed": -1, "a quota is exceeded": -125} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				r := w.reaper("reaper", reaper.Options{Schedule: "@every 1m"})
				w.fails("reaper", locktest.Fault{Code: code}, func(q locktest.Request) bool { return q.Op == "multi" })
				stop := w.run(r)
				time.Sleep(time.Minute)
				if n := len(w.lines("cannot become the active reaper: trying again")); n != 4 { // after 0, 5, 15 and 35 s
					t.Errorf("tried again %d times, want 4", n)
				}
				w.Intercept(nil)
				time.Sleep(time.Minute)
				if s := r.Monitor().Status(); s.State != reaper.Active {
					t.Errorf("after it: %+v", s)
				}
				stop()
			})
		})
	}
}

// TestLongOutageIsLoggedAgain: in an outage of 40 minutes the log has five reminders. Run can be
// stopped during the outage without an error.
func TestLongOutageIsLoggedAgain(t *testing.T) {
	simulate(t, func(w *world) {
		r := w.reaper("reaper", reaper.Options{})
		stop := w.run(r)
		time.Sleep(time.Second)
		w.Partition("reaper")
		time.Sleep(40 * time.Minute)
		if n := len(w.lines("still no session with ZooKeeper")); n != 5 { // after 1, 3, 7, 15 and 31 minutes
			t.Errorf("told again %d times, want 5", n)
		}
		stop() // Run must return nil during an outage
	})
}

func TestStartIsLoggedInOneLine(t *testing.T) {
	simulate(t, func(w *world) {
		about := reaper.About{Version: "v1.2.3", File: "config.yaml", Servers: w.Servers(), Root: "/locks"}
		set := w.policies(policy.Rule{Match: w.pattern("often/*"), Policy: lock.Policy{Name: "often"}, Schedule: "@every 10s"})
		first := w.reaper("first", reaper.Options{Policies: set, Monitor: reaper.NewMonitor(about)})
		defer w.run(first)()
		time.Sleep(time.Second)
		line := w.one("reaper started")
		if line["version"] != "v1.2.3" || line["configuration"] != "config.yaml" || line["root"] != "/locks" || line["state"] != "active" ||
			fmt.Sprint(line["servers"]) != fmt.Sprint(w.Servers()) || fmt.Sprint(line["schedules"]) != "[@every 10s @every 1m]" {
			t.Errorf("the active one: %v", line)
		}
		second := w.reaper("second", reaper.Options{Policies: set, Monitor: reaper.NewMonitor(about)})
		defer w.run(second)()
		time.Sleep(time.Second)
		line = w.lines("reaper started")[1]
		if line["state"] != "standby" || !strings.Contains(fmt.Sprint(line["active"]), "first") {
			t.Errorf("the one that stands by: %v", line)
		}
		if n := len(w.lines("another reaper is the active one now")); n != 0 {
			t.Errorf("%d lines say that the active one has changed", n)
		}
		if s := second.Monitor().Status(); s.State != reaper.Standby || !strings.Contains(s.ActiveReaper, "first") || len(s.Schedules) != 0 {
			t.Errorf("the one that stands by: %+v", s)
		}
		if s := first.Monitor().Status(); s.State != reaper.Active || len(s.Schedules) != 2 || s.Schedules[0].Next.IsZero() {
			t.Errorf("the active one: %+v", s)
		}
	})
}

// TestSummaryEachHour: the active reaper and a reaper that stands by each log a summary every hour.
func TestSummaryEachHour(t *testing.T) {
	simulateOf(t, locktest.Options{}, func(w *world) {
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Hour)
		defer cancel()
		w.ctx = ctx
		defer w.run(w.reaper("first", reaper.Options{}))()
		time.Sleep(time.Second)
		defer w.run(w.reaper("second", reaper.Options{}))()
		time.Sleep(3*time.Hour + time.Minute)
		states := map[string]int{}
		for _, line := range w.lines("summary of the last hour") {
			states[fmt.Sprint(line["state"], " ", line["sweeps"])]++
		}
		if states["active 59"]+states["active 60"]+states["active 61"] != 3 || states["standby 0"] != 3 {
			t.Errorf("summaries: %v, want 3 of each", states)
		}
	})
}

// TestSkippedSweepsSayWhy: the log line of a skipped sweep has how long the running sweep has run, and
// what it waits for. The end of the running sweep is logged with the number of skipped sweeps.
func TestSkippedSweepsSayWhy(t *testing.T) {
	simulate(t, func(w *world) {
		r := w.reaper("reaper", reaper.Options{Schedule: "@every 1s", Concurrency: 1}) // so that it waits for one reply at a time
		w.mustSweep(r)
		w.dead(w.raw("others"), "slow")
		w.fails("reaper", locktest.Fault{Delay: 3500 * time.Millisecond}, func(q locktest.Request) bool { return lists(q, "/locks/slow") })
		stop := w.run(r)
		time.Sleep(4 * time.Second)
		line := w.lines("the sweep before is still running: this one is skipped")[0]
		if line["waits_for"] != "the list of /locks/slow" || line["runs_for"] == "" || line["waits"] == "" || line["skipped_in_a_row"] != 1.0 {
			t.Errorf("%v", line)
		}
		if s := r.Monitor().Status().Schedules[0]; s.Running == nil || s.Running.WaitsFor != "the list of /locks/slow" || s.Skipped == 0 {
			t.Errorf("%+v", s)
		}
		w.Intercept(nil)
		time.Sleep(10 * time.Second)
		stop()
		told := 0
		for _, line := range w.lines("swept") {
			if line["skipped_meanwhile"] == 3.0 && line["level"] == "info" {
				told++
			}
		}
		if told != 1 {
			t.Errorf("told %d times that the sweep has ended for which others were skipped", told)
		}
	})
}

// TestFailuresAreCounted: equal failures in a row are counted, and logged the first, second, fourth and
// eighth time. The next success is logged, too.
func TestFailuresAreCounted(t *testing.T) {
	simulate(t, func(w *world) {
		r := w.reaper("reaper", reaper.Options{Schedule: "@every 10s"})
		z := w.raw("others")
		w.mustSweep(r)
		var reports atomic.Int32
		r.Monitor().Observe(func(reaper.Report) { reports.Add(1) })
		w.dead(z, "a")
		w.fails("reaper", locktest.Fault{Code: -8}, func(q locktest.Request) bool { return lists(q, "/locks/a") }) // bad arguments
		stop := w.run(r)
		time.Sleep(101 * time.Second)
		var told []any
		for _, line := range w.lines("sweep failed") {
			if line["level"] == "error" {
				told = append(told, line["failed_in_a_row"])
			}
		}
		if want := "[<nil> 2 4 8]"; fmt.Sprint(told) != want {
			t.Errorf("told of failures %v, want %s", told, want)
		}
		s := r.Monitor().Status()
		if s.Failed != 10 || s.LastFailure.InARow != 10 || s.LastFailure.Error == "" || s.Schedules[0].Failed != 10 || !s.Schedules[0].Last.IsZero() {
			t.Errorf("%+v, %+v", s, s.LastFailure)
		}
		if !s.Schedules[0].Overdue || len(s.Overdue()) != 1 {
			t.Error("sweeps that fail for longer than a minute are not overdue")
		}
		w.Intercept(nil)
		time.Sleep(10 * time.Second)
		if line := w.one("sweeps succeed again"); line["failed_in_a_row"] != 10.0 {
			t.Errorf("%v", line)
		}
		s = r.Monitor().Status()
		if s.LastFailure.InARow != 0 || s.Schedules[0].Overdue || len(s.Reports) != 12 || reports.Load() != 11 {
			t.Errorf("after it: %+v", s)
		}
		stop()
	})
}

// TestReload: a policy with a schedule of its own is swept by it, and not by the reaper's. A reload puts
// new policies and schedules in force. A reload with a mistake changes nothing.
func TestReload(t *testing.T) {
	simulate(t, func(w *world) {
		z := w.raw("others")
		slow := w.policies(policy.Rule{Match: w.pattern("seldom/*"), Policy: lock.Policy{Name: "seldom", TTL: ttl, Grace: grace}, OrphanAfter: orphan, Schedule: "@every 1h"})
		o := reaper.Options{Policies: slow, Schedule: "@every 10s"}
		r := w.reaper("reaper", o)
		stop := w.run(r)
		time.Sleep(time.Second)
		w.dead(z, "seldom/1")
		time.Sleep(5 * time.Minute)
		if !slices.Contains(w.paths(), "/seldom/1") {
			t.Fatal("it was swept by another schedule than its own")
		}
		if err := r.Reload(reaper.Options{Policies: slow, Batch: 501}); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("reloaded with a mistake: %v", err)
		}
		if s := r.Monitor().Status(); s.Reloads != 0 || len(s.Schedules) != 2 {
			t.Errorf("after a mistake: %+v", s)
		}
		o.Policies = w.policies()
		iferr.Fatal(t, r.Reload(o))
		time.Sleep(11 * time.Second)
		if slices.Contains(w.paths(), "/seldom/1") {
			t.Error("the new policies are not in force")
		}
		s := r.Monitor().Status()
		if s.Reloads != 1 || len(s.Schedules) != 1 || s.Schedules[0].Last.IsZero() || r.Monitor().Policies() != o.Policies {
			t.Errorf("%+v", s)
		}
		stop()
	})
}

// TestReloadForgetsLiveLocks: after a reload, a sweep reads the locks that were remembered.
func TestReloadForgetsLiveLocks(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{})
		w.dead(z, "a")
		w.mustSweep(r)
		if n := w.reads(r, "/locks/a"); n != 0 {
			t.Fatalf("read %d times", n)
		}
		iferr.Fatal(t, r.Reload(reaper.Options{Policies: w.policies()}))
		if n := w.reads(r, "/locks/a"); n == 0 {
			t.Error("not read again by the new policies")
		}
	})
}

// TestOwnLockIsNotCounted: neither the active reaper's lock nor a standby's entry is counted.
func TestOwnLockIsNotCounted(t *testing.T) {
	simulate(t, func(w *world) {
		first := w.reaper("first", reaper.Options{})
		defer w.run(first)()
		time.Sleep(time.Second)
		defer w.run(w.reaper("second", reaper.Options{}))()
		time.Sleep(2 * time.Minute)
		dry := w.mustSweep(w.reaper("dry", reaper.Options{DryRun: true}))
		reports := first.Monitor().Status().Reports
		for _, report := range append(reports, dry) {
			c := report.Total
			c.Seconds = 0
			if c != (reaper.Counts{}) {
				t.Errorf("counted %+v where there is nothing but the reapers' lock", c)
			}
		}
		if len(reports) == 0 {
			t.Error("no reports")
		}
	})
}
