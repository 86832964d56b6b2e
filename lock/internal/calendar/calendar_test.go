package calendar

import (
	"archive/zip"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // for machines without zones

	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

var all = flag.Bool("zones", false, "check all time zones over six years, instead of a sample around their changes")

// sample has zones that change at midnight, by half an hour, in Ramadan, or not at all.
var sample = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Africa/Cairo", "Asia/Beirut", "America/Santiago",
	"America/Havana", "Atlantic/Azores", "Australia/Lord_Howe", "Africa/Casablanca",
}

var schedules = []string{
	"0 0 * * *", "30 0 * * *", "30 2 * * *", "59 23 * * *", "15 1,2,3 * * *", "0 5 * * 5", "0 12 * * 0", "0 0 * * 0",
	"0 0 1 * *", "0 3 31 * *", "0 0 13 * 5", "*/20 * * 3,4,9-11 *", "0 0 29 2 *",
}

const years6 = 6 * 366 * 24 * time.Hour

var begin = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// matches is the slow and obvious reference: whether the minute has the fields of the schedule.
func matches(s *cron.SpecSchedule, month time.Month, dayOfMonth int, weekday time.Weekday, hour, minute int) bool {
	has := func(bits uint64, n int) bool { return bits&(1<<uint(n)) != 0 }
	dom, dow := has(s.Dom, dayOfMonth), has(s.Dow, int(weekday))
	day := dom || dow
	if has(s.Dom, 63) || has(s.Dow, 63) { // a star
		day = dom && dow
	}
	return day && has(s.Minute, minute) && has(s.Hour, hour) && has(s.Month, int(month))
}

// spans returns the times to check: all of them, or the weeks around the changes of a zone.
func spans(zone *time.Location) (spans [][2]time.Time) {
	end := begin.Add(years6)
	if *all {
		return [][2]time.Time{{begin, end}}
	}
	spans = [][2]time.Time{{begin, begin.AddDate(0, 2, 0)}}
	for at := begin; ; {
		_, change := at.In(zone).ZoneBounds()
		if change.IsZero() || change.After(end) {
			return spans
		}
		spans = append(spans, [2]time.Time{change.AddDate(0, 0, -2).UTC(), change.AddDate(0, 0, 9).UTC()})
		at = change
	}
}

// TestExact: the ticks of each schedule are the minutes that match its fields, in each zone.
func TestExact(t *testing.T) {
	for _, name := range zones(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(name)
			iferr.Fatal(t, err)
			for _, span := range spans(zone) {
				iferr.Error(t, check(zone, span[0], span[1]))
			}
		})
	}
}

// check compares the ticks of all schedules between two times with the reference.
func check(zone *time.Location, from, to time.Time) error {
	specs, ticks, next := make([]cron.SpecSchedule, len(schedules)), make([]cron.Schedule, len(schedules)), make([]time.Time, len(schedules))
	for i, text := range schedules {
		s, err := cron.ParseStandard(text)
		if err != nil {
			return err
		}
		specs[i] = *s.(*cron.SpecSchedule)
		specs[i].Location = zone
		ticks[i] = Exact(&specs[i])
		next[i] = ticks[i].Next(from.Add(-1))
	}
	for minute := from.Truncate(time.Minute); minute.Before(to); minute = minute.Add(time.Minute) {
		local := minute.In(zone)
		_, month, day := local.Date()
		hour, min, _ := local.Clock()
		for i := range specs {
			is := next[i].Equal(minute)
			if is != matches(&specs[i], month, day, local.Weekday(), hour, min) && !minute.Before(from) {
				return fmt.Errorf("%q: the tick is %v, and the reference has %v", schedules[i], next[i].In(zone), local)
			}
			if is {
				next[i] = ticks[i].Next(minute)
			}
		}
	}
	return nil
}

// zones returns the sample, or all zones that come with Go.
func zones(t *testing.T) []string {
	if !*all {
		return sample
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	iferr.Fatal(t, err)
	file, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	iferr.Fatal(t, err)
	defer file.Close()
	var names []string
	seen := map[uint32]bool{} // most zones are links to others
	for _, f := range file.File {
		if !strings.HasSuffix(f.Name, "/") && !seen[f.CRC32] {
			seen[f.CRC32] = true
			names = append(names, f.Name)
		}
	}
	return names
}

// TestMissedByCron: these are the ticks that the cron package misses, delays or invents.
func TestMissedByCron(t *testing.T) {
	for _, c := range []struct{ schedule, after, want string }{
		{"CRON_TZ=Africa/Cairo 0 5 * * 5", "2026-04-18T00:00:00Z", "2026-04-24T02:00:00Z"},
		{"CRON_TZ=Asia/Beirut 0 12 * * 0", "2026-03-23T00:00:00Z", "2026-03-29T09:00:00Z"},
		{"CRON_TZ=Australia/Lord_Howe 0 3 * * *", "2026-10-03T00:00:00Z", "2026-10-03T16:00:00Z"},
	} {
		s, err := cron.ParseStandard(c.schedule)
		iferr.Fatal(t, err)
		after, _ := time.Parse(time.RFC3339, c.after)
		if got := Exact(s).Next(after).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s after %s: %s, want %s", c.schedule, c.after, got, c.want)
		}
	}
}

// TestDayFields: with a day of the month and a day of the week either suffices, also if one has a step.
// For cron(8) a field that begins with a star means both.
func TestDayFields(t *testing.T) {
	s, err := cron.ParseStandard("0 0 */2 * MON")
	iferr.Fatal(t, err)
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) // a Monday
	for _, day := range []int{3, 5, 7, 8, 9, 11} {
		if at = Exact(s).Next(at); at.Day() != day {
			t.Fatalf("the next day is %v, want %d", at, day)
		}
	}
}

// TestExactLeavesOthers: other kinds of schedules stay, and a schedule without a zone is in that of its
// argument.
func TestExactLeavesOthers(t *testing.T) {
	if s := cron.Every(time.Hour); Exact(s) != cron.Schedule(s) {
		t.Error("an interval was replaced")
	}
	daily, err := cron.ParseStandard("@daily")
	iferr.Fatal(t, err)
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("x", 5400)} {
		if got := Exact(daily).Next(time.Date(2026, 1, 1, 12, 0, 0, 5, zone)); !got.Equal(time.Date(2026, 1, 2, 0, 0, 0, 0, zone)) || got.Location() != zone {
			t.Errorf("%v: %v", zone, got)
		}
	}
	never := &cron.SpecSchedule{Second: 1, Minute: 1, Hour: 1, Dom: 1 << 30, Month: 1 << 2, Dow: 1 << 63, Location: time.UTC}
	if got := Exact(never).Next(begin); !got.IsZero() {
		t.Errorf("the 30th of February comes at %v", got)
	}
}
