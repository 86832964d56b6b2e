package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// whenRule describes the formats of a time, for an error.
const whenRule = "must be a time of day (03:12, 03:12:05), a time with its date (2026-11-26T03:12), with its zone (2026-11-26T03:12:05Z), or a time ago (2h, 90s)"

var (
	dayLayouts  = []string{"15:04", "15:04:05"} // package time accepts a fraction of the seconds, too
	dateLayouts = []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"}
)

// timeOfDay reports whether a time has no date.
func timeOfDay(s string) bool {
	return slices.ContainsFunc(dayLayouts, func(layout string) bool {
		_, err := time.Parse(layout, strings.TrimSpace(s))
		return err == nil
	})
}

// parseWhen parses a time of the past. A duration counts back from now. A time of day means its latest
// occurrence up to end. A time without a zone is in the zone of now.
func parseWhen(s string, now, end time.Time) (time.Time, error) {
	s = strings.TrimSpace(s)
	ago, isAgo := strings.CutPrefix(s, "ago ")
	if before, ok := strings.CutSuffix(s, " ago"); ok {
		ago, isAgo = before, true
	}
	if !isAgo {
		ago = s
	}
	if d, err := time.ParseDuration(strings.TrimSpace(ago)); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	for _, layout := range dateLayouts {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range dayLayouts {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		y, m, d := end.Date()
		at := func(d int) time.Time {
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location())
		}
		if today := at(d); !today.After(end) {
			return today, nil
		}
		return at(d - 1), nil
	}
	return time.Time{}, fmt.Errorf("%q: %s", s, whenRule)
}

// parseZxid parses a transaction's number, as ZooKeeper's tools print it: 0x100000042. ok is false if s
// does not begin with 0x.
func parseZxid(s string) (zxid int64, ok bool, err error) {
	digits, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(s)), "0x")
	if !ok {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(digits, 16, 63)
	if err != nil || n == 0 {
		return 0, true, fmt.Errorf("%q: is no zxid, such as 0x100000042", s)
	}
	return int64(n), true, nil
}
