package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"

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
func ParseSchedule(text string) (cron.Schedule, error) {
	if err := checkSchedule(text); err != nil {
		return nil, err
	}
	zone, _, _ := splitZone(text)
	if _, err := time.LoadLocation(zone); err != nil {
		if _, none := time.LoadLocation("Europe/Berlin"); none != nil {
			return nil, fmt.Errorf("must be in UTC, or on a machine with time zones: install tzdata, or import time/tzdata in the program: %w", err)
		}
		return nil, fmt.Errorf("must have a time zone that this machine knows, such as UTC or Europe/Berlin: %w", err)
	}
	s, err := cron.ParseStandard(text)
	return calendar.Exact(s), err
}

// checkSchedule checks a schedule as ParseSchedule does, but accepts any time zone.
func checkSchedule(text string) error {
	_, spec, err := splitZone(text)
	if err != nil {
		return err
	}
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return fmt.Errorf("must be a cron expression or an interval such as @every 1m: %w", err)
	}
	if interval, ok := strings.CutPrefix(spec, "@every "); ok {
		every, err := time.ParseDuration(interval)
		if err != nil || every < time.Second || every%time.Second != 0 {
			return errors.New("must be at least one second and whole seconds: cron would round it")
		}
	}
	if !fires(schedule) {
		return errors.New("must have a time that comes: no day and hour fit it")
	}
	return nil
}

// splitZone splits a schedule into its time zone, "" for none, and the rest.
func splitZone(text string) (zone, spec string, err error) {
	if !strings.HasPrefix(text, "TZ=") && !strings.HasPrefix(text, "CRON_TZ=") {
		return "", text, nil
	}
	zone, spec, found := strings.Cut(text[strings.Index(text, "=")+1:], " ")
	switch {
	case !found: // the cron package would panic
		err = errors.New("must have a schedule after the time zone")
	case strings.Contains(spec, "TZ="):
		err = errors.New("must have one time zone")
	}
	return zone, strings.TrimSpace(spec), err
}

// fires reports whether the schedule ever fires. The cron package searches five years. The search
// begins on a fixed day of a leap year, so that the result does not depend on today's date.
func fires(schedule cron.Schedule) bool {
	if s, ok := schedule.(*cron.SpecSchedule); ok && (s.Minute == 0 || s.Hour == 0) {
		return false // such as ",": the search would take long
	}
	return !schedule.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero()
}
