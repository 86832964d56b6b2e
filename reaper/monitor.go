package reaper

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// Monitor has the state of the reaper of one root, from before it has a client until it has
// ended. It serves health checks, metrics and pages. All methods are safe for concurrent use, and
// none waits for a server.
type Monitor struct {
	about   About
	started time.Time

	mu        sync.Mutex
	observers []func(Report)
	locks     *lock.Client
	policies  *policy.Set
	announced bool
	role      State // Active or Standby, whether there is a session or not
	active    string
	state     State // last state, and its start
	since     time.Time
	tenure    time.Time // time at which it became the active one; zero while it stands by
	noRoot    bool      // there was no root at the start
	locksSeen bool      // a sweep has seen a lock
	session   Session
	id        int64       // id of the session
	under     []*progress // running sweeps
	groups    []*group    // groups with their schedules; none while standing by
	before    []*group    // last groups before standing by
	reports   []Report
	sweeps    uint64
	failed    uint64
	skipped   uint64
	totals    Counts
	failure   *Failure
	reloads   uint64
	refused   *Failure
}

// NewMonitor returns the monitor of a reaper without a session.
func NewMonitor(about About) *Monitor {
	now := time.Now()
	about.Servers = slices.Clone(about.Servers)
	return &Monitor{about: about, started: now, role: Standby, state: Disconnected, since: now, session: Session{Since: now}}
}

// Observe registers f, which is called with the report of each sweep that ends, including those
// that failed or found another reaper active. It is called outside of all locks, and must not
// block.
func (m *Monitor) Observe(f func(Report)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observers = append(m.observers, f)
}

// Locks returns the reaper's client; nil until there is one.
func (m *Monitor) Locks() *lock.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.locks
}

// Policies returns the policies in force; nil until the reaper or its daemon was made.
func (m *Monitor) Policies() *policy.Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.policies
}

// Status returns the present status. The result belongs to the caller.
func (m *Monitor) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	s := Status{
		About: m.about, Started: m.started, State: m.state, Since: m.since, ActiveSince: m.tenure, ActiveReaper: m.active,
		NoRoot: m.noRoot && !m.locksSeen, LocksSeen: m.locksSeen,
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
		s.Schedules = append(s.Schedules, g.status(now, m.sweepOf(g)))
	}
	return s
}

// Progress returns the progress of the running sweeps, including those outside of the schedule.
func (m *Monitor) Progress() []Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Progress
	for _, p := range m.under {
		all = append(all, *p.status(time.Now()))
	}
	return all
}

func copied(f *Failure) *Failure {
	if f == nil {
		return nil
	}
	g := *f
	return &g
}

// fails records a failure, and returns the number of failures in a row.
func (m *Monitor) fails(err error) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = next(m.failure, err.Error())
	return m.failure.InARow
}

// ended records an error that has ended a reaper, and its session with it. That is no loss of the
// session.
func (m *Monitor) ended(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = next(m.failure, err.Error())
	if m.session.Connected {
		m.session.Connected, m.session.Since = false, time.Now()
	}
	m.settle()
}

// next returns a failure that follows another one.
func next(last *Failure, text string) *Failure {
	now := time.Now()
	f := Failure{First: now}
	if last != nil && last.InARow > 0 {
		f = *last
	}
	f.Error, f.Last = text, now
	f.InARow++
	return &f
}

// Refuse records that a configuration was refused because of err. If err is nil, the last one was
// accepted, but needs a restart.
func (m *Monitor) Refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.refused = nil
		return
	}
	m.refused = next(m.refused, err.Error())
}

// serves records the client and the policies in force.
func (m *Monitor) serves(locks *lock.Client, policies *policy.Set) {
	session := admin.New(locks).Session()
	m.mu.Lock()
	m.locks, m.policies = locks, policies
	m.succeeded()
	m.mu.Unlock()
	m.connected(session)
}

// inForce records the policies at the start of a reaper.
func (m *Monitor) inForce(policies *policy.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.policies = policies
}

// reloaded records the policies after a reload.
func (m *Monitor) reloaded(policies *policy.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.policies, m.refused = policies, nil
	m.reloads++
}

// step records whether this reaper is active or stands by, and the name of the active one. When
// it is no longer active, its earlier failures do not count any more.
func (m *Monitor) step(role State, active string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case role == Active && m.role != Active:
		m.tenure = time.Now()
	case role == Standby && m.role == Active:
		m.tenure = time.Time{}
		m.succeeded()
	}
	m.role, m.active = role, active
	m.settle()
}

// succeeded ends a row of failures; m.mu is held.
func (m *Monitor) succeeded() {
	if m.failure = copied(m.failure); m.failure != nil {
		m.failure.InARow = 0
	}
}

// rootMissing records that there is no root.
func (m *Monitor) rootMissing() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noRoot = true
}

// activeIs records the active reaper, and reports whether that has changed.
func (m *Monitor) activeIs(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.active != name
	m.active = name
	return changed
}

// settle updates the state from session and role; m.mu is held.
func (m *Monitor) settle() {
	state := m.role
	if !m.session.Connected {
		state = Disconnected
	}
	if state != m.state {
		m.state, m.since = state, time.Now()
	}
}

// connected records the state of the session. It returns the duration of the state before, and
// whether the state and the session have changed.
func (m *Monitor) connected(s admin.Session) (lasted time.Duration, changed, another bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	lasted = now.Sub(m.session.Since)
	changed = m.session.Connected != s.Connected
	another = s.Connected && m.id != 0 && s.ID != m.id
	if s.Connected && s.ID != 0 {
		m.id, m.session.ID = s.ID, "0x"+strconv.FormatUint(uint64(s.ID), 16)
	}
	if changed {
		if s.Connected {
			m.session.Away += lasted.Seconds()
		} else {
			m.session.Losses++
		}
		m.session.Connected, m.session.Since = s.Connected, now
		m.settle()
	}
	return lasted, changed, another
}

// schedules records the groups that are swept from now on. A group with the same schedule as an
// earlier one continues the history of that schedule.
func (m *Monitor) schedules(groups []*group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if groups == nil {
		m.before, m.groups = m.groups, nil
		for _, g := range m.before { // from now on another reaper sweeps
			g.failed, g.why, g.skipped, g.seen, g.next = 0, "", 0, Counts{}, time.Time{}
		}
		return
	}
	for _, g := range groups {
		same := func(old *group) bool { return old.text == g.text }
		if j := slices.IndexFunc(m.groups, same); j >= 0 {
			g.history = m.groups[j].history
		} else if j := slices.IndexFunc(m.before, same); j >= 0 {
			from := g.from
			g.history = m.before[j].history
			g.from = from
		}
	}
	m.before, m.groups = nil, groups
}

// sweepOf returns the running scheduled sweep that has a policy in common with the group; before
// a reload it may have had another schedule. m.mu is held.
func (m *Monitor) sweepOf(g *group) *progress {
	for _, p := range m.under {
		if p.group.schedule != nil && p.group.sharesPolicy(g) {
			return p
		}
	}
	return nil
}

// begin records the start of a sweep. A scheduled sweep does not begin while another sweep of one
// of its policies is running. Then begin returns the number of skipped sweeps in a row, and the
// running sweep.
func (m *Monitor) begin(p *progress) (skipped int, before *Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := p.group
	if other := m.sweepOf(g); other != nil && g.schedule != nil {
		m.skipped++
		g.skipped++
		return g.skipped, other.status(time.Now())
	}
	g.skipped = 0
	m.under = append(m.under, p)
	return 0, nil
}

// over records that the sweep has ended.
func (m *Monitor) over(p *progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.under = slices.DeleteFunc(m.under, func(other *progress) bool { return other == p })
}

// row compares a sweep with the earlier ones of its group.
type row struct {
	failed  int  // failed sweeps in a row, this one included
	before  int  // failed sweeps in a row before it
	news    bool // it failed for another reason than the last one
	skipped int  // number of sweeps that were skipped while it ran
}

// end records the result of a sweep, and calls the observers.
func (m *Monitor) end(p *progress, report Report, err error) row {
	m.over(p)
	m.mu.Lock()
	g := p.group
	r := row{before: g.failed, skipped: g.skipped}
	m.sweeps++
	m.totals.add(report.Total)
	m.locksSeen = m.locksSeen || report.Total.Locks > 0
	switch {
	case err == nil:
		g.last, g.failed, g.why, g.seen = p.began, 0, "", report.Total
		m.succeeded()
	default:
		m.failed++
		r.news = g.why != err.Error()
		g.failed, g.why = g.failed+1, err.Error()
		m.failure = next(m.failure, err.Error())
	}
	r.failed = g.failed
	kept := report
	kept.Denied, kept.Undecodable, kept.Format1, kept.Planned = nil, nil, nil, nil
	if len(m.reports) == KeptReports {
		m.reports = slices.Delete(m.reports, 0, 1)
	}
	m.reports = append(m.reports, kept)
	observers := m.observers
	m.mu.Unlock()
	for _, f := range observers {
		f(report)
	}
	return r
}
