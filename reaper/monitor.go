package reaper

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// Monitor has the state of the reaper of one root, even before the reaper has a client and after it has
// ended. Health checks, metrics and pages read the monitor. All methods are safe for concurrent use,
// and none waits for a server.
type Monitor struct {
	announced atomic.Bool // the first log line was written

	mu sync.Mutex
	// status is the status at the last change, without Schedules and Leader. Its About is constant.
	status    Status
	role      State // Active or Standby, whether there is a session or not
	observers []func(Report)
	locks     *lock.Client
	policies  *policy.Set
	under     []*progress // running sweeps
	groups    []*group    // groups with their schedules; none while standing by
	totals    Counts      // Deleted, Missed, Purged and Pruned of all sweeps
	leader    *Leader     // by the last read; nil if there is none, or none since the session or the role has changed
}

// NewMonitor returns a monitor for [Options].Monitor. Its state is [Disconnected] until the reaper has
// a session.
func NewMonitor(about About) *Monitor {
	now := time.Now()
	about.Servers = slices.Clone(about.Servers)
	return &Monitor{
		role:   Standby,
		status: Status{About: about, Started: now, State: Disconnected, Since: now, Session: Session{Since: now}},
	}
}

// Observe registers f, which is called with the report of each sweep that ends, including sweeps
// that failed or found another reaper active. f may call the monitor, and may run concurrently with
// itself. It must not block, because the sweep waits for it.
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

// Status returns the present status. The caller may change the result, except the maps in its Reports.
func (m *Monitor) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, s := time.Now(), m.status
	s.Servers, s.Reports = slices.Clone(s.Servers), slices.Clone(s.Reports)
	s.LastFailure, s.Refused = s.LastFailure.clone(), s.Refused.clone()
	if !s.Session.Connected {
		s.Session.Away += now.Sub(s.Session.Since).Seconds()
	}
	if s.State != Standby {
		s.ActiveReaper = ""
	}
	s.NoRoot = s.NoRoot && m.role == Active // without sweeps of its own a reaper does not see locks
	s.Leader = m.leader.at(now)
	s.Schedules = []Schedule{}
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
		s, _ := p.status(time.Now())
		all = append(all, *s)
	}
	return all
}

// fails records a failure, and returns the number of failures in a row.
func (m *Monitor) fails(err error) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.LastFailure = m.status.LastFailure.then(err)
	return m.status.LastFailure.InARow
}

// ended records an error that has ended the reaper. The session has ended too, and does not count as
// lost.
func (m *Monitor) ended(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.LastFailure = m.status.LastFailure.then(err)
	if session := &m.status.Session; session.Connected {
		session.Connected, session.Since = false, time.Now()
	}
	m.settle()
}

// Refuse records that a configuration was refused because of err, for Refused of the [Status]. Call
// Refuse with nil if a later configuration is valid but was not reloaded: this clears Refused.
func (m *Monitor) Refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.status.Refused = nil
	} else {
		m.status.Refused = m.status.Refused.then(err)
	}
}

// serves records the client, nil if there is none yet, and the policies in force. The failures in a
// row count from 0 again.
func (m *Monitor) serves(locks *lock.Client, policies *policy.Set) {
	session := admin.New(locks).Session()
	m.mu.Lock()
	m.locks, m.policies = locks, policies
	m.status.LastFailure = m.status.LastFailure.over()
	m.mu.Unlock()
	m.connected(session)
}

// reloaded counts a reload, records its policies, and clears Refused of the [Status].
func (m *Monitor) reloaded(policies *policy.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.policies, m.status.Refused = policies, nil
	m.status.Reloads++
}

// step records whether this reaper is active or stands by. active is the name of the active reaper, if
// another reaper is the active one. When this reaper stops being active, its failures in a row count
// from 0 again.
func (m *Monitor) step(role State, active string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case role == m.role:
	case role == Active:
		m.status.ActiveSince, m.leader = time.Now(), nil
	default:
		m.status.ActiveSince, m.leader = time.Time{}, nil
		m.status.LastFailure = m.status.LastFailure.over()
	}
	m.role, m.status.ActiveReaper = role, active
	m.settle()
}

// leads records the leader, nil if there is none. own means that the entry is one of this reaper. leads
// reports whether this reaper stands by, which the log has said, and another one than before is active.
func (m *Monitor) leads(l *Leader, own bool) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leader = l
	if own || m.role != Standby || m.status.ActiveReaper == l.name() {
		return false
	}
	m.status.ActiveReaper = l.name()
	return m.announced.Load()
}

// rootMissing records that there is no root, unless a sweep has found a lock.
func (m *Monitor) rootMissing() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.NoRoot = !m.status.LocksSeen
}

// settle updates the state from session and role; m.mu is held.
func (m *Monitor) settle() {
	state := m.role
	if !m.status.Session.Connected {
		state = Disconnected
	}
	if state != m.status.State {
		m.status.State, m.status.Since = state, time.Now()
	}
}

// connected records the state of the session. It returns how long the previous state lasted, whether
// the state has changed, and whether the client has another session.
func (m *Monitor) connected(s admin.Session) (lasted time.Duration, changed, another bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, session := time.Now(), &m.status.Session
	lasted = now.Sub(session.Since)
	changed = session.Connected != s.Connected
	if s.Connected && s.ID != 0 {
		id := "0x" + strconv.FormatUint(uint64(s.ID), 16)
		another = session.ID != "" && session.ID != id
		session.ID = id
	}
	session.LastFailure = ""
	if s.LastFailure != nil {
		session.LastFailure = s.LastFailure.Error()
	}
	if changed {
		if s.Connected {
			session.Away += lasted.Seconds()
			m.leader = nil // what was read before the outage may be false
		} else {
			session.Losses++
		}
		session.Connected, session.Since = s.Connected, now
		m.settle()
	}
	return lasted, changed, another
}

// schedules records the groups that are swept from now on; none while this reaper stands by. A
// group with the same schedule as a previous one continues its history.
func (m *Monitor) schedules(groups []*group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range groups {
		if i := slices.IndexFunc(m.groups, func(old *group) bool { return old.text == g.text }); i >= 0 {
			g.history = m.groups[i].history
		} else {
			g.history = &history{from: time.Now()}
		}
	}
	m.groups = groups
}

// sweepOf returns a running scheduled sweep that has a policy in common with the group, perhaps from
// before a reload; nil if there is none. m.mu is held.
func (m *Monitor) sweepOf(g *group) *progress {
	for _, p := range m.under {
		if p.group.schedule != nil && p.group.sharesPolicy(g) {
			return p
		}
	}
	return nil
}

// begin records the start of a sweep. A scheduled sweep does not begin while another scheduled sweep
// of one of its policies is running. Then begin returns the number of skipped sweeps in a row, and
// the progress of the running sweep; otherwise 0 and nil.
func (m *Monitor) begin(p *progress) (skipped int, before *Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := p.group
	if other := m.sweepOf(g); other != nil && g.schedule != nil {
		m.status.Skipped++
		g.skipped++
		before, _ = other.status(time.Now())
		return g.skipped, before
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

// end records the result of a sweep, and calls the observers. It returns the history of the sweep's
// schedule without this sweep.
func (m *Monitor) end(p *progress, report Report, err error) (before history) {
	m.over(p)
	m.mu.Lock()
	g, s := p.group, &m.status
	before = *g.history
	if err == nil {
		g.last, g.failed, g.why, g.seen = p.began, 0, "", report.Total
		s.LastFailure = s.LastFailure.over()
	} else {
		s.Failed++
		g.failed, g.why = g.failed+1, err.Error()
		s.LastFailure = s.LastFailure.then(err)
	}
	s.Sweeps++
	if report.Total.Locks > 0 {
		s.LocksSeen, s.NoRoot = true, false
	}
	m.totals.Deleted += report.Total.Deleted
	m.totals.Missed += report.Total.Missed
	m.totals.Purged += report.Total.Purged
	m.totals.Pruned += report.Total.Pruned
	kept := report
	kept.Denied, kept.Undecodable, kept.Planned = nil, nil, nil
	if len(s.Reports) == KeptReports {
		s.Reports = slices.Delete(s.Reports, 0, 1)
	}
	s.Reports = append(s.Reports, kept)
	observers := m.observers
	m.mu.Unlock()
	for _, f := range observers {
		f(report)
	}
	return before
}
