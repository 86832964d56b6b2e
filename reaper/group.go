package reaper

import (
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/robfig/cron/v3"
)

// group has the policies with one schedule, which one sweep covers. It is immutable: a reload
// creates new groups.
type group struct {
	text     string
	schedule cron.Schedule // nil: a single sweep on request
	chosen   []policy.Policy
	*history
}

// history has the results of a schedule's sweeps. Monitor.mu guards it.
type history struct {
	from    time.Time // time at which the schedule came into force in this process
	last    time.Time // start of the last complete sweep
	next    time.Time // time of the next sweep; zero: cron has not asked yet
	skipped int       // number of skipped sweeps in a row
	failed  int       // number of failed sweeps in a row
	why     string    // error of the last failed sweep
	seen    Counts    // counts of the last complete sweep
}

func newGroup(text string, schedule cron.Schedule, policies []policy.Policy) *group {
	return &group{text: text, schedule: schedule, chosen: policies, history: &history{from: time.Now()}}
}

// timing is the schedule of a group for cron. After a reload it keeps the due time of the next
// sweep: if "@every" began anew, frequent reloads would postpone all sweeps.
type timing struct {
	monitor *Monitor
	group   *group
	begun   bool
}

// Next returns when the next sweep is due.
func (t *timing) Next(now time.Time) time.Time {
	t.monitor.mu.Lock()
	defer t.monitor.mu.Unlock()
	if t.begun || t.group.next.IsZero() {
		t.group.next = t.group.schedule.Next(now)
	}
	t.begun = true
	return t.group.next
}

// groups groups the policies by schedule.
func (in *setup) groups() []*group {
	var groups []*group
	for _, text := range in.options.schedules() {
		g := newGroup(text, in.schedules[text], nil)
		for _, p := range in.options.Policies.All() {
			if in.options.scheduleOf(p) == text {
				g.chosen = append(g.chosen, p)
			}
		}
		groups = append(groups, g)
	}
	return groups
}

// sharesPolicy reports whether both groups have a policy of the same name.
func (g *group) sharesPolicy(other *group) bool {
	return slices.ContainsFunc(g.chosen, func(p policy.Policy) bool {
		return slices.ContainsFunc(other.chosen, func(q policy.Policy) bool { return p.Name == q.Name })
	})
}

// status returns the status of the group. running is the current sweep of its policies, nil if
// there is none.
func (g *group) status(now time.Time, running *progress) Schedule {
	s := Schedule{Schedule: g.text, Last: g.last, Skipped: g.skipped, Failed: g.failed, Next: g.next}
	for _, p := range g.chosen {
		s.Policies = append(s.Policies, p.Name)
	}
	var moved time.Time // when the sweep was last seen to get on
	if running != nil {
		s.Running = running.status(now)
		if g.failed == 0 {
			moved = running.moved()
		}
	}
	begun := g.from
	if g.last.After(begun) {
		begun = g.last
	}
	if late := overdue(g.schedule, begun, moved, now); late > 0 {
		s.Overdue, s.Late = true, late.Seconds()
	}
	return s
}

// Bounds of the delay that is allowed after a sweep was due. Within them, the delay may last until
// the next sweep is due.
const (
	leastLate = time.Minute
	mostLate  = time.Hour
)

// overdue returns how long a sweep is overdue; 0 means it is not. last is when the last complete
// sweep began, moved when the current sweep last made progress.
func overdue(schedule cron.Schedule, last, moved, now time.Time) time.Duration {
	due := schedule.Next(last)
	if due.IsZero() {
		return 0
	}
	allowed := mostLate
	if next := schedule.Next(due); !next.IsZero() {
		allowed = min(max(next.Sub(due), leastLate), mostLate)
	}
	if now.Sub(moved) <= allowed {
		return 0
	}
	return max(0, now.Sub(due)-allowed)
}
