package statuspage

import (
	"math"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// monitor is the monitor of a reaper that does not exist. The test sets its contents.
type monitor struct {
	locks  *lock.Client
	set    *policy.Set
	groups []string // of shards, that the sweep finds

	mu       sync.Mutex
	status   reaper.Status
	observer func(reaper.Report)
}

func newMonitor() *monitor {
	now := time.Now()
	set, err := policy.NewSet(
		policy.Rule{Match: policy.MustPattern("imports/**"), Policy: lock.Policy{Name: "imports", TTL: 5 * time.Minute}},
		policy.Rule{Match: policy.MustPattern("orders/**"), Policy: lock.Policy{Name: "orders", TTL: time.Minute}, Schedule: "@every 15s"},
	)
	if err != nil {
		panic(err)
	}
	m := &monitor{set: set, status: reaper.Status{
		About:   reaper.About{Version: "v0.9.0, go1.25.3 linux/amd64", File: "/etc/holdfast/config.yaml", Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}, Root: "/locks"},
		Started: now.Add(-75 * time.Hour), State: reaper.Active, Since: now.Add(-26 * time.Hour), ActiveSince: now.Add(-26 * time.Hour), LocksSeen: true,
		Session: reaper.Session{Connected: true, Since: now.Add(-3 * time.Hour), ID: "0x100a3c0f1d20004", Losses: 2, Away: 41},
		Schedules: []reaper.Schedule{
			{Schedule: "@every 1m", Policies: []string{"imports", "default"}, Last: now.Add(-23 * time.Second), Next: now.Add(37 * time.Second)},
			{Schedule: "@every 15s", Policies: []string{"orders"}, Last: now.Add(-4 * time.Second), Next: now.Add(11 * time.Second)},
		},
		Sweeps: 812,
	}}
	for i := range 60 {
		x := float64(i)
		r := reaper.Report{Root: "/locks", Schedule: "@every 1m", Started: now.Add(-time.Duration(60-i) * time.Minute), Seconds: .4 + .2*math.Sin(x/5) + .02*float64(i*i%7), Complete: i != 31}
		r.Total = reaper.Counts{Locks: 4900 + i, Live: 4800 + i, Purged: i * i % 11, Pruned: i * 7 % 5}
		if !r.Complete {
			r.Seconds, r.Error = 2.1, "sweep of /locks is incomplete: list /locks/orders: zk: connection closed"
		}
		m.status.Reports = append(m.status.Reports, r)
	}
	return m
}

func (m *monitor) Status() reaper.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

func (m *monitor) Locks() *lock.Client             { return m.locks }
func (m *monitor) Policies() *policy.Set           { return m.set }
func (m *monitor) Observe(f func(r reaper.Report)) { m.observer = f }

// report passes the report of a sweep to the observer.
func (m *monitor) report() {
	late := 0
	if len(m.status.Schedules) > 0 && m.status.Schedules[0].Overdue {
		late = 3
	}
	m.observer(reaper.Report{Root: "/locks", Started: time.Now(), Complete: true, Groups: m.groups, Undecodable: []string{"/locks/catalog/part/item-0002"}, Policies: map[string]*reaper.Counts{
		"imports": {Locks: 1612, Live: 1612, Scanned: 3224, Purged: 3, Expired: 3},
		"orders":  {Locks: 1611, Live: 1630, Scanned: 12, Pruned: 9},
		"default": {Locks: 1777, Live: 1777, Scanned: 90, Foreign: 2, Denied: late, Undecodable: late},
	}})
}

// trouble sets the status so that the page shows every kind of problem together.
func (m *monitor) trouble() {
	now := time.Now()
	m.status.Session = reaper.Session{Since: now.Add(-17 * time.Second), Losses: 3, Away: 58}
	m.status.State = reaper.Disconnected
	m.status.Schedules[0].Overdue, m.status.Schedules[0].Late = true, 312
	m.status.Schedules[0].Running = &reaper.Progress{Began: now.Add(-5 * time.Minute), Found: 5000, Done: 1200, WaitsFor: "the list of /locks/orders", Waits: 290}
	m.status.Refused = &reaper.Failure{Error: "config.yaml:14:5: policies[1].ttl: must be more than zero", Last: now}
	m.status.LastFailure = &reaper.Failure{Error: "sweep of /locks is incomplete: list /locks/orders: zk: connection closed", InARow: 4, Last: now}
}
