package reaper

import (
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/robfig/cron/v3"
)

// group is the policies that are swept together, because they have one schedule, and
// what became of their sweeps. What changes is guarded by the lock of the monitor.
type group struct {
	text     string
	schedule cron.Schedule // nil: swept once, when asked for
	chosen   []policy.Policy

	from    time.Time // when it came into force, here
	last    time.Time // when the last complete sweep began
	sweep   *progress // that is under way; nil: none
	skipped int       // in a row
	failed  int       // in a row
	why     string    // the last one failed
	seen    Counts    // by the last complete one
}

func newGroup(text string, schedule cron.Schedule, policies []policy.Policy) *group {
	return &group{text: text, schedule: schedule, chosen: policies, from: time.Now()}
}

// groups groups the policies by when they are swept.
func (in *setup) groups() []*group {
	var groups []*group
	for _, p := range in.options.Policies.All() {
		text := p.Schedule
		if text == "" {
			text = in.options.Schedule
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.text == text })
		if i < 0 {
			schedule, err := policy.ParseSchedule(text)
			if err != nil {
				panic(err) // Validate and policy.NewSet have parsed it
			}
			i = len(groups)
			groups = append(groups, newGroup(text, schedule, nil))
		}
		groups[i].chosen = append(groups[i].chosen, p)
	}
	return groups
}

func (g *group) status(now time.Time) Schedule {
	s := Schedule{Schedule: g.text, Last: g.last, Skipped: g.skipped, Failed: g.failed, Next: g.schedule.Next(now)}
	for _, p := range g.chosen {
		s.Policies = append(s.Policies, p.Name)
	}
	var moved time.Time // when the sweep was last seen to get on
	if g.sweep != nil {
		s.Running = g.sweep.status(now)
		if g.failed == 0 {
			moved = g.sweep.moved()
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
