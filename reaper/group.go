package reaper

import (
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/robfig/cron/v3"
)

// group is the policies that are swept together, because they have one schedule. It does
// not change: a reload makes other groups.
type group struct {
	text     string
	schedule cron.Schedule // nil: swept once, when asked for
	chosen   []policy.Policy
	*history
}

// history is what became of the sweeps of a schedule. The lock of the monitor guards it.
type history struct {
	from    time.Time // when the schedule came into force, here
	last    time.Time // when the last complete sweep began
	next    time.Time // when a sweep is due; zero: cron has not asked yet
	skipped int       // in a row
	failed  int       // in a row
	why     string    // the last one failed
	seen    Counts    // by the last complete one
}

func newGroup(text string, schedule cron.Schedule, policies []policy.Policy) *group {
	return &group{text: text, schedule: schedule, chosen: policies, history: &history{from: time.Now()}}
}

// timing is the schedule of a group as cron asks for it. After a reload it goes on with what was
// due: an "@every" would begin anew, so that frequent reloads would put off all sweeps.
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

// groups groups the policies by when they are swept.
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

// sharesPolicy reports whether a policy of that name is in both groups.
func (g *group) sharesPolicy(other *group) bool {
	return slices.ContainsFunc(g.chosen, func(p policy.Policy) bool {
		return slices.ContainsFunc(other.chosen, func(q policy.Policy) bool { return p.Name == q.Name })
	})
}

// status is what is known of the group; running is the sweep of its policies that is under
// way, nil if there is none.
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

// Bounds of for how long after it was due a sweep is not overdue: it is until the next
// one is due, but within these.
const (
	leastLate = time.Minute
	mostLate  = time.Hour
)

// overdue returns for how long a sweep is overdue, or 0: by the schedule, when the last
// one that was complete began, and when one that is under way was last seen to get on.
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
