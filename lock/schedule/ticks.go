package schedule

import (
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/lock/internal/calendar"
)

// horizon is how far back a search for a tick goes. The cron package searches as far ahead.
const horizon = 5 * 366 * 24 * time.Hour

// ticks are the points of a schedule, the same for every replica. The schedule gets all times in
// UTC, so that without a time zone of its own it does not depend on the machine.
type ticks struct{ schedule Schedule }

// newTicks returns the ticks of a schedule. cron counts an interval from the time of the call,
// which differs among replicas, so newTicks replaces it by one with fixed points; and it misses days
// on which clocks change at midnight.
func newTicks(s Schedule) ticks {
	if every, ok := s.(cron.ConstantDelaySchedule); ok {
		s = interval(every.Delay)
	}
	return ticks{calendar.Exact(s)}
}

// interval has its points at whole multiples since midnight UTC of January 1 of the year 1.
type interval time.Duration

// Next returns the first point after t.
func (i interval) Next(t time.Time) time.Time {
	return t.Truncate(time.Duration(i)).Add(time.Duration(i))
}

// next returns the first tick after a time; zero if there is none.
func (s ticks) next(after time.Time) time.Time {
	if tick := s.schedule.Next(after.UTC()); tick.After(after) {
		return tick.UTC()
	}
	return time.Time{}
}

// any reports whether there is a tick later than after, and not later than until.
func (s ticks) any(after, until time.Time) bool {
	tick := s.next(after)
	return !tick.IsZero() && !tick.After(until)
}

// last returns the last tick that is later than after, and not later than until; zero if there is
// none. It searches by halving, because a walk over a year of seconds would take too long.
func (s ticks) last(after, until time.Time) time.Time {
	if !s.any(after, until) {
		return time.Time{}
	}
	none := until
	for span := time.Second; ; span *= 2 {
		start := until.Add(-span)
		if !start.After(after) {
			break
		}
		if s.any(start, until) {
			after = start
			break
		}
		none = start
	}
	for none.Sub(after) > 1 { // there is a tick in (after, until], and none in (none, until]
		middle := after.Add(none.Sub(after) / 2)
		if s.any(middle, until) {
			after = middle
		} else {
			none = middle
		}
	}
	return s.next(after)
}

// newest returns the first of the newest n ticks that are later than after, and not later than
// until. If there are fewer than n such ticks, it returns the first of all. There must be at least
// one such tick.
func (s ticks) newest(n int, after, until time.Time) time.Time {
	first := s.next(after)
	beyond := first
	for range n {
		if beyond = s.next(beyond); beyond.IsZero() || beyond.After(until) {
			return first
		}
	}
	tick := s.last(after, until)
	for range n - 1 {
		tick = s.last(after, tick.Add(-1))
	}
	return tick
}

// nearest returns the tick that is nearest to a time; zero if there is none.
func (s ticks) nearest(now time.Time) time.Time {
	before, after := s.last(now.Add(-horizon), now), s.next(now)
	if before.IsZero() || !after.IsZero() && after.Sub(now) < now.Sub(before) {
		return after
	}
	return before
}
