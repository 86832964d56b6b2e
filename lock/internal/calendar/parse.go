package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Parse is policy.ParseSchedule.
func Parse(text string) (cron.Schedule, error) {
	if err := Check(text); err != nil {
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
	return Exact(s), err
}

// Check checks a schedule as Parse does, but accepts any time zone.
func Check(text string) error {
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
	case zone == "":
		err = errors.New("must have a time zone after the =, such as UTC or Europe/Berlin")
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
