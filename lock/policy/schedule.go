package policy

import (
	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/lock/internal/calendar"
)

// ParseSchedule parses the schedule of the reaper's sweeps. It has one of these forms:
//
//   - five fields of cron: minute, hour, day of month, month, day of week;
//   - a descriptor, such as @hourly;
//   - "@every 90s".
//
// A time zone may precede each form ("CRON_TZ=Europe/Berlin 0 4 * * *"). The default is the
// machine's local time.
//
// ParseSchedule refuses a time zone that this machine does not know; a [Set] and a file may have an
// unknown time zone, because clients need no schedule. It also refuses schedules that the cron
// package would not run as written: an interval of @every with a fraction of a second, and a day
// that never comes.
//
// A time of day that a change to summer time skips does not occur on that day, and one that the
// change back repeats occurs twice. A weekly schedule can miss a week: in Havana, midnight of one
// Sunday in March does not exist. UTC ("CRON_TZ=UTC 30 2 * * *") and @every avoid this. The result
// finds all other ticks, some of which the cron package misses where clocks change at midnight.
func ParseSchedule(text string) (cron.Schedule, error) { return calendar.Parse(text) }
