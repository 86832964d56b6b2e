// Package calendar finds the ticks of a schedule in a time zone that changes its offset. The cron
// package looks for the next day by adding 24 hours to midnight: where clocks change at midnight, it
// misses a weekly tick, or finds it a day late. This package imports nothing of ours.
package calendar

import (
	"time"

	"github.com/robfig/cron/v3"
)

// years is how far ahead Next searches, as the cron package does.
const years = 5

// Exact returns the schedule with exact ticks: the points of time, in whole seconds, whose time of day
// and date in the schedule's time zone match its fields. A time of day that a change of the clock skips
// has no tick on that day, and one that a change repeats has two. A schedule that is not a
// [cron.SpecSchedule] is returned as it is.
func Exact(s cron.Schedule) cron.Schedule {
	if spec, ok := s.(*cron.SpecSchedule); ok {
		return exact{*spec}
	}
	return s
}

type exact struct{ fields cron.SpecSchedule }

// Next returns the first tick after t, in t's time zone; zero if there is none within five years. A
// schedule in [time.Local] is in t's time zone, as for the cron package.
func (e exact) Next(t time.Time) time.Time {
	zone := e.fields.Location
	if zone == time.Local {
		zone = t.Location()
	}
	limit := t.AddDate(years, 0, 0)
	for from := t.Truncate(time.Second).Add(time.Second).In(zone); from.Before(limit); {
		// Until the offset changes no clock is set, and the cron package is right.
		_, change := from.ZoneBounds()
		fields := e.fields
		fields.Location = time.FixedZone(from.Zone())
		tick := fields.Next(from.Add(-time.Second))
		switch {
		case !tick.IsZero() && (change.IsZero() || tick.Before(change)):
			return tick.In(t.Location())
		case change.IsZero():
			return time.Time{}
		}
		from = change
	}
	return time.Time{}
}
