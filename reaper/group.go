package reaper

import (
	"time"

	"github.com/robfig/cron/v3"
)

// Bounds of how long after it was due a sweep is overdue: as long as until the next
// one is due, but within these.
const (
	leastLate = time.Minute
	mostLate  = time.Hour
)

// group is the policies that have one schedule, and what became of their sweeps. Its
// monitor's lock guards what changes.
type group struct {
	text     string
	schedule cron.Schedule
	policies []string

	from    time.Time // when it came into force here, or the reaper became the active one
	last    time.Time // when the last complete sweep began
	sweep   *progress // that is under way; nil: none
	skipped int
	failed  int
}

func (g *group) status(now time.Time, leading bool) Schedule {
	s := Schedule{Schedule: g.text, Policies: g.policies, Last: g.last, Skipped: g.skipped, Failed: g.failed}
	var moved time.Time // when the sweep was last seen to get on
	if g.sweep != nil {
		s.Running = g.sweep.status(now)
		if g.failed == 0 {
			moved = g.sweep.moved()
		}
	}
	if !leading {
		return s
	}
	s.Next = g.schedule.Next(now)
	begun := g.from
	if g.last.After(begun) {
		begun = g.last
	}
	if late := overdue(g.schedule, begun, moved, now); late > 0 {
		s.Overdue, s.Late = true, late.Seconds()
	}
	return s
}

// overdue returns for how long a sweep is overdue, or 0: of a schedule by which the last
// one that was complete began then, while one that is under way got on when it was last
// seen to.
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
