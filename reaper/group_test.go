package reaper

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"
)

func TestPanicDoesNotEndASchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newCron(zerolog.New(zerolog.SyncWriter(&log)))
		runs := 0
		c.Schedule(cron.Every(time.Second), cron.FuncJob(func() {
			runs++
			panic("the sweep is broken")
		}))
		c.Start()
		time.Sleep(5500 * time.Millisecond)
		<-c.Stop().Done()
		synctest.Wait()
		if runs != 5 {
			t.Errorf("%d runs, want 5", runs)
		}
		if n := strings.Count(log.String(), "the sweep is broken"); n != 5 {
			t.Errorf("%d panics logged, want 5:\n%s", n, log.String())
		}
	})
}

func TestStarts(t *testing.T) {
	for _, tt := range []struct{ patterns, want string }{
		{"**", ""},
		{"orders/*", "orders"},
		{"orders/* invoices/**", "invoices orders"},
		{"orders/** orders/eu/*", "orders"},
		{"orders/a orders-b/c", "orders-b/c orders/a"},
		{"orders/* **", ""},
		{"*/x orders/y", ""},
	} {
		var policies []policy.Rule
		for text := range strings.FieldsSeq(tt.patterns) {
			p, err := policy.ParsePattern(text)
			iferr.Fatal(t, err)
			policies = append(policies, policy.Rule{Match: p})
		}
		want := strings.Fields(tt.want)
		if tt.want == "" {
			want = []string{""}
		}
		if got := starts(policies); !slices.Equal(got, want) {
			t.Errorf("starts(%s) = %q, want %q", tt.patterns, got, want)
		}
	}
}

// TestConfigFileHasTheDefaults: the reaper's settings in config.yaml are the defaults.
func TestConfigFileHasTheDefaults(t *testing.T) {
	c, err := config.Load("../config.yaml")
	iferr.Fatal(t, err)
	o := Options{}.withDefaults()
	if want := (config.Reaper{Schedule: o.Schedule, Concurrency: o.Concurrency, Batch: o.Batch, Lock: o.Lock}); c.Reaper != want {
		t.Errorf("config.yaml has %+v, and the defaults are %+v", c.Reaper, want)
	}
	iferr.Error(t, (Options{}).Validate())
}

func TestOverdue(t *testing.T) {
	const day = 24 * time.Hour
	start := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		schedule string
		after    time.Duration // time since the start of the last complete sweep
		moved    time.Duration // time from that start to the last progress; negative: no sweep is running
		want     time.Duration
	}{
		{"@every 1m", time.Minute, -1, 0},
		{"@every 1m", 2 * time.Minute, -1, 0},
		{"@every 1m", 2*time.Minute + time.Second, -1, time.Second},
		{"@every 1m", time.Hour, time.Hour - time.Minute, 0}, // slow, but it makes progress
		{"@every 1m", time.Hour, time.Hour - 61*time.Second, 58 * time.Minute},
		{"@every 1s", time.Minute, -1, 0}, // the allowed delay is at least a minute
		{"@every 1s", 62 * time.Second, -1, time.Second},
		{"@every 10m", 20*time.Minute + time.Second, -1, time.Second},
		{"TZ=UTC 30 4 * * *", 16*time.Hour + 30*time.Minute, -1, 0}, // due at that moment
		{"TZ=UTC 30 4 * * *", 17*time.Hour + 29*time.Minute, -1, 0},
		{"TZ=UTC 30 4 * * *", 17*time.Hour + 31*time.Minute, -1, time.Minute},
		{"TZ=UTC 0 0 29 2 *", 300 * day, -1, 0},
	} {
		schedule, err := policy.ParseSchedule(tt.schedule)
		iferr.Fatal(t, err)
		var moved time.Time
		if tt.moved >= 0 {
			moved = start.Add(tt.moved)
		}
		if got := overdue(schedule, start, moved, start.Add(tt.after)); got != tt.want {
			t.Errorf("%s after %v, moved after %v: overdue for %v, want %v", tt.schedule, tt.after, tt.moved, got, tt.want)
		}
	}
}

// TestHangingSweepIsOverdue: a sweep that makes no progress for more than a minute is overdue. A slow
// sweep that makes progress is not.
func TestHangingSweepIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMonitor(About{})
		schedule, err := policy.ParseSchedule("@every 10s")
		iferr.Fatal(t, err)
		g := newGroup("@every 10s", schedule, []policy.Rule{{Policy: lock.Policy{Name: "all"}}})
		m.schedules([]*group{g})
		time.Sleep(10 * time.Second)
		p := newProgress(g)
		m.begin(p)
		for range 10 {
			answered := p.begin("the data of /locks/a")
			time.Sleep(50 * time.Second)
			answered()
			if late := m.Status().Overdue(); len(late) != 0 {
				t.Fatalf("one that gets on is overdue: %+v", late)
			}
		}
		p.begin("the data of /locks/b")
		time.Sleep(61 * time.Second)
		late := m.Status().Overdue()
		if len(late) != 1 || late[0].Running.WaitsFor != "the data of /locks/b" || late[0].Running.Waits != 61 {
			t.Errorf("%+v", late)
		}
	})
}

// TestSweepUsesOneConfiguration: a sweep that was due before a reload, and begins after it, uses only
// the old configuration.
func TestSweepUsesOneConfiguration(t *testing.T) {
	for _, match := range []string{"*", "other/*"} { // what the configuration after it matches
		synctest.Test(t, func(t *testing.T) {
			c := holding(t, "held")
			options := func(name, match string) Options {
				set, err := policy.NewSet(policy.Rule{Match: policy.MustPattern(match), Policy: lock.Policy{Name: name}})
				iferr.Fatal(t, err)
				return Options{Policies: set}
			}
			r, err := New(c, options("before", "*"))
			iferr.Fatal(t, err)
			var report Report
			r.monitor.Observe(func(last Report) { report = last })
			before := r.setup.Load()
			r.monitor.schedules(before.groups)
			iferr.Fatal(t, r.Reload(options("after", match)))
			r.monitor.schedules(r.setup.Load().groups)
			r.scheduled(t.Context(), before, before.groups[0])
			if !report.Complete || report.Total.Locks != 1 || report.Policies["before"] == nil || report.Policies["after"] != nil {
				t.Errorf("%s: %+v", match, report)
			}
		})
	}
}

// TestLeaderAfterAnOutage: a reaper that stands by tells which one was active while there is no session, with
// the age of its lease, and no more when there is one again.
func TestLeaderAfterAnOutage(t *testing.T) {
	m := NewMonitor(About{})
	m.connected(admin.Session{Connected: true})
	m.leads(&Leader{Owner: "other"}, false)
	for _, connected := range []bool{false, true} {
		m.connected(admin.Session{Connected: connected})
		if l := m.Status().Leader; (l == nil) != connected {
			t.Errorf("connected %v: %+v", connected, l)
		}
	}
}

// TestStatusIsACopy: who changes a status does not change the monitor's.
func TestStatusIsACopy(t *testing.T) {
	m := NewMonitor(About{Servers: []string{"a"}})
	m.fails(errors.New("why"))
	m.Refuse(errors.New("why"))
	s := m.Status()
	s.Servers[0], s.LastFailure.Error, s.Refused.Error = "b", "other", "other"
	if s := m.Status(); s.Servers[0] != "a" || s.LastFailure.Error != "why" || s.Refused.Error != "why" {
		t.Errorf("%+v, %+v, %+v", s.Servers, s.LastFailure, s.Refused)
	}
}

// TestMonitorIsSafe: a monitor is safe for concurrent use, and keeps at most KeptReports reports.
func TestMonitorIsSafe(t *testing.T) {
	m := NewMonitor(About{Servers: []string{"a"}})
	var done sync.WaitGroup
	for i := range 4 {
		done.Go(func() {
			for j := range 200 {
				g := newGroup("", cron.Every(time.Second), nil)
				p := newProgress(g)
				m.schedules([]*group{g})
				m.begin(p)
				p.begin("x")()
				m.Observe(func(Report) {})
				m.end(p, Report{Policies: map[string]*Counts{"a": {Locks: j}}}, []error{nil, errors.New("x")}[j%2])
				m.step(Active, "")
				m.Refuse(errors.New("x"))
				if s := m.Status(); i == 0 && (len(s.Reports) > KeptReports || s.LastFailure != nil && s.LastFailure.Error == "") {
					t.Errorf("%+v", s)
				}
				m.tally()
			}
		})
	}
	done.Wait()
}
