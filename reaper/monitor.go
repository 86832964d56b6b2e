package reaper

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// Monitor keeps what there is to know of the reaper of one root, from before it has a
// client until it has ended: for health checks, metrics and pages. All methods are safe
// for concurrent use, and none waits for a server.
type Monitor struct {
	about   About
	started time.Time

	mu        sync.Mutex
	observers []func(Report)
	locks     *lock.Client
	policies  *policy.Set
	leading   bool // it has the lock that makes it the active one
	active    string
	state     State
	since     time.Time
	session   Session
	groups    []*group
	reports   []Report
	sweeps    uint64
	failed    uint64
	skipped   uint64
	failure   *Failure
	reloads   uint64
	refused   *Failure
}

// NewMonitor returns the monitor of a reaper that has no session yet.
func NewMonitor(about About) *Monitor {
	now := time.Now()
	return &Monitor{about: about, started: now, state: Disconnected, since: now, session: Session{Since: now}}
}

// Observe has f called with the report of each sweep that ends, also of those that
// failed or were skipped. It is called outside of all locks, and must not block.
func (m *Monitor) Observe(f func(Report)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observers = append(m.observers, f)
}

// Locks is the client that the reaper works with: nil until there is one.
func (m *Monitor) Locks() *lock.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.locks
}

// Policies are those in force; nil until the reaper was made.
func (m *Monitor) Policies() *policy.Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.policies
}

// Status is what is known now. What it returns is the caller's.
func (m *Monitor) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	s := Status{
		About: m.about, Started: m.started, State: m.state, Since: m.since, ActiveReaper: m.active,
		Session: m.session, Schedules: []Schedule{}, Reports: slices.Clone(m.reports),
		Sweeps: m.sweeps, Failed: m.failed, Skipped: m.skipped, Reloads: m.reloads,
	}
	s.Servers = slices.Clone(s.Servers)
	if !s.Session.Connected {
		s.Session.Away += now.Sub(s.Session.Since).Seconds()
	}
	if m.state != Standby {
		s.ActiveReaper = ""
	}
	s.LastFailure, s.Refused = copied(m.failure), copied(m.refused)
	for _, g := range m.groups {
		s.Schedules = append(s.Schedules, g.status(now, m.leading))
	}
	return s
}

func copied(f *Failure) *Failure {
	if f == nil {
		return nil
	}
	g := *f
	return &g
}
