// Tests of decisions: which tick runs, and which ticks never run.

package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// noon is the time from which the tables count, in minutes.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }

// minutely returns a plan with a tick each minute. Limit is 3, and Late is two minutes.
func minutely(missed Missed, overlap Overlap) plan {
	return plan{ticks: newTicks(cron.Every(time.Minute)), missed: missed, limit: 3, late: 2 * time.Minute, overlap: overlap}
}

// ran returns a record of one run. The run's tick and all earlier ticks are done.
func ran(tick, started, ended float64, outcome Outcome) *record {
	return &record{Status: Status{Upto: at(tick), Runs: []Run{{Tick: at(tick), Started: at(started), Ended: at(ended), Outcome: outcome}}}}
}

// decoded returns a record as it is read from its node.
func decoded(s Status) *record { return &record{Status: s, planned: true} }

func TestDecide(t *testing.T) {
	fresh := &record{Status: Status{Upto: at(0)}}
	again := ran(5, 5, 6, Unfinished)
	again.Upto = at(4)
	twice := ran(5, 60, 61, Unfinished)
	twice.Upto, twice.Next, twice.planned, twice.Skipped = at(4), at(5), true, &Skipped{First: at(6), Last: at(58)}
	hourlyThen := ran(4, 4, 30, Done)
	hourlyThen.Next, hourlyThen.planned = at(60), true
	hourly := decoded(Status{Upto: at(0), Next: at(60)})
	over := decoded(Status{Upto: at(0)})
	for name, c := range map[string]struct {
		missed  Missed
		overlap Overlap
		rec     *record
		now     float64
		waited  float64 // 0: no run has crashed
		tick    float64 // -1: none
		skipped string  // "FIRST-LAST WHY"
	}{
		"not yet":                      {rec: fresh, now: 0.9, tick: -1},
		"just due":                     {rec: fresh, now: 1, tick: 1},
		"a little late":                {rec: fresh, now: 2.9, tick: 1},
		"two are due, in order":        {rec: ran(1, 1, 1.1, Done), now: 3, tick: 2},
		"the clock was set back":       {rec: ran(60, 60, 60.1, Done), now: 3, tick: -1},
		"the next after it":            {rec: ran(60, 60, 60.1, Done), now: 61, tick: 61},
		"missed, skip":                 {rec: fresh, now: 10.5, tick: 9, skipped: "1-8 missed"},
		"missed, last, a later is due": {missed: RunLast, rec: fresh, now: 10.5, tick: 9, skipped: "1-8 missed"},
		"missed, all":                  {missed: RunAll, rec: fresh, now: 10.5, tick: 6, skipped: "1-5 missed"},
		"missed, all, below the limit": {missed: RunAll, rec: fresh, now: 4.5, tick: 1},

		"a new schedule, all":               {missed: RunAll, rec: hourly, now: 10.5, tick: 9, skipped: "1-8 rescheduled"},
		"a new schedule, last":              {missed: RunLast, rec: hourly, now: 10.5, tick: 9, skipped: "1-8 rescheduled"},
		"a new schedule, none is too early": {missed: RunAll, rec: hourly, now: 2.5, tick: 1},

		"a new schedule, after a long run": {missed: RunAll, rec: hourlyThen, now: 30.5, tick: 29, skipped: "5-28 rescheduled"},
		"a new schedule, after a crash":    {missed: RunAll, rec: hourlyThen, now: 30.5, waited: 4.5, tick: 29, skipped: "5-28 rescheduled"},

		"a new schedule, none was left":  {missed: RunAll, rec: over, now: 10.5, tick: 9, skipped: "1-8 rescheduled"},
		"kept when the last run began":   {missed: Skip, rec: ran(6, 10.5, 30, Done), now: 30, tick: 7},
		"kept, although overlaps skip":   {missed: RunAll, overlap: OverlapSkip, rec: ran(6, 10.5, 30, Done), now: 30, tick: 7},
		"came during the run, wait":      {rec: ran(10, 10, 30, Done), now: 30, tick: 11},
		"came during the run, skip":      {overlap: OverlapSkip, rec: ran(10, 10, 12.5, Done), now: 13.5, tick: 13, skipped: "11-12 overlap"},
		"came during the run, none left": {overlap: OverlapSkip, rec: ran(10, 10, 12.5, Done), now: 12.6, tick: -1, skipped: "11-12 overlap"},
		"during the run, and missed":     {overlap: OverlapSkip, rec: ran(10, 10, 12.5, Done), now: 20, tick: 19, skipped: "11-18 missed"},
		"beside a run that goes on":      {overlap: OverlapBeside, rec: ran(10, 10, 0, Running), now: 11, tick: 11},
		"beside, missed":                 {overlap: OverlapBeside, rec: ran(10, 10, 0, Running), now: 20, tick: 19, skipped: "11-18 missed"},

		"a crash, waited for":                  {rec: ran(10, 10, 40, Unfinished), now: 40, waited: 10.1, tick: 11},
		"a crash, skip what waited":            {overlap: OverlapSkip, rec: ran(10, 10, 40, Unfinished), now: 40, waited: 10.1, tick: -1, skipped: "11-40 overlap"},
		"a crash long ago, skip":               {rec: ran(10, 10, 40, Unfinished), now: 40, waited: 39.9, tick: 38, skipped: "11-37 missed"},
		"a crash long ago, last":               {missed: RunLast, rec: ran(10, 10, 40, Unfinished), now: 40, waited: 39.9, tick: 38, skipped: "11-37 missed"},
		"a crash long ago, none waits":         {missed: RunLast, overlap: OverlapSkip, rec: ran(10, 10, 40, Unfinished), now: 40, waited: 39.9, tick: 38, skipped: "11-37 missed"},
		"came during the run, then none lived": {rec: ran(4, 4, 6.5, Done), now: 60, tick: 59, skipped: "5-58 missed"},
		"the same, all":                        {missed: RunAll, rec: ran(4, 4, 6.5, Done), now: 60, tick: 56, skipped: "5-55 missed"},
		"interrupted, and runs again":          {rec: again, now: 7, tick: 5},
		"interrupted, overlaps are skip":       {overlap: OverlapSkip, rec: again, now: 7, tick: 5, skipped: "6-6 overlap"},
		"interrupted long ago":                 {rec: again, now: 60, tick: 5, skipped: "6-58 missed"},
		"interrupted long ago, all":            {missed: RunAll, rec: again, now: 60, tick: 5, skipped: "6-55 missed"},
		"interrupted once more":                {rec: twice, now: 120, tick: 5, skipped: "59-118 missed"},
	} {
		t.Run(name, func(t *testing.T) {
			m := moment{now: at(c.now)}
			if c.waited != 0 {
				m.waited = at(c.waited)
			}
			p := minutely(c.missed, c.overlap)
			tick, skip := p.decide(c.rec, m)
			want := time.Time{}
			if c.tick >= 0 {
				want = at(c.tick)
			}
			if !tick.Equal(want) {
				t.Errorf("runs %v, want %v", tick, want)
			}
			skipped := ""
			if skip != nil {
				skipped = fmt.Sprintf("%v-%v %s", skip.First.Sub(noon).Minutes(), skip.Last.Sub(noon).Minutes(), skip.Why)
			}
			if skipped != c.skipped {
				t.Errorf("skipped %q, want %q", skipped, c.skipped)
			}
		})
	}
}

// TestDecideRunsLast: if no later tick is due, RunLast runs the last missed tick and skips the
// earlier ones. Skip skips all of them.
func TestDecideRunsLast(t *testing.T) {
	p := plan{ticks: newTicks(cron.Every(time.Hour)), missed: RunLast, late: 2 * time.Minute}
	rec := &record{Status: Status{Upto: at(0)}}
	tick, skip := p.decide(rec, moment{now: at(5*60 + 30)})
	if !tick.Equal(at(5*60)) || skip == nil || !skip.Last.Equal(at(4*60)) {
		t.Errorf("runs %v, skips %v", tick, skip)
	}
	p.missed = Skip
	if tick, skip = p.decide(rec, moment{now: at(5*60 + 30)}); !tick.IsZero() || skip == nil || !skip.Last.Equal(at(5*60)) {
		t.Errorf("runs %v, skips %v", tick, skip)
	}
}

// TestSettle: a tick with an unfinished run runs again if the job runs at least once, and does not
// if it runs at most once.
func TestSettle(t *testing.T) {
	for _, atLeastOnce := range []bool{false, true} {
		rec := ran(5, 5, 5.5, Unfinished)
		rec.Upto, rec.Next, rec.planned = at(4), at(5), true
		if changed := rec.settle(atLeastOnce); changed == atLeastOnce {
			t.Errorf("at least once %v: changed %v", atLeastOnce, changed)
		}
		p := minutely(RunAll, OverlapWait)
		tick, _ := p.decide(rec, moment{now: at(60)})
		if want := map[bool]time.Time{true: at(5), false: at(56)}[atLeastOnce]; !tick.Equal(want) {
			t.Errorf("at least once %v: runs %v, want %v", atLeastOnce, tick, want)
		}
	}
}

func must(t *testing.T, text string) ticks {
	t.Helper()
	s, err := cron.ParseStandard(text)
	iferr.Fatal(t, err)
	return newTicks(s)
}

// TestTicksAreFixed: the ticks do not depend on the time zone of the machine, or on the time from
// which the next tick is asked for.
func TestTicksAreFixed(t *testing.T) {
	elsewhere := time.FixedZone("elsewhere", 7*3600+1800)
	for _, text := range []string{"@daily", "@every 1h", "@every 90m", "*/7 * * * *", "CRON_TZ=America/New_York 30 2 * * *"} {
		s := must(t, text)
		from := at(0.3)
		tick := s.next(from)
		for range 50 {
			if other := s.next(from.In(elsewhere)); !other.Equal(tick) || other.Location() != time.UTC {
				t.Errorf("%s: %v there, %v here", text, other, tick)
			}
			if between := s.next(from.Add(tick.Sub(from) / 3)); !between.Equal(tick) {
				t.Errorf("%s: %v seen from in between, want %v", text, between, tick)
			}
			from, tick = tick, s.next(tick)
		}
	}
}

// TestDayWithoutMidnight: a tick comes on a day on which the clocks change at midnight, although the cron
// package misses it. Package calendar tests all other days.
func TestDayWithoutMidnight(t *testing.T) {
	s := must(t, "CRON_TZ=Africa/Cairo 0 5 * * 5")
	before, want := time.Date(2026, 4, 18, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 24, 2, 0, 0, 0, time.UTC)
	if got, last := s.next(before), s.last(before, want.AddDate(0, 0, 6)); !got.Equal(want) || !last.Equal(want) {
		t.Errorf("the next tick after %v is %v, and the last one of two weeks %v, want %v", before, got, last, want)
	}
}

func TestLastAndNewest(t *testing.T) {
	for _, text := range []string{"@hourly", "@every 1s", "*/7 3 * * *", "0 0 1 3 *"} {
		s := must(t, text)
		var all []time.Time
		tick := noon
		for range 400 {
			tick = s.next(tick)
			all = append(all, tick)
		}
		for _, i := range []int{0, 1, 2, 17, 399} {
			for _, until := range []time.Time{all[i], all[i].Add(time.Nanosecond)} {
				if got := s.last(noon, until); !got.Equal(all[i]) {
					t.Errorf("%s: the last one until %v is %v, want %v", text, until, got, all[i])
				}
				for _, n := range []int{1, 2, 5} {
					if got, want := s.newest(n, noon, until), all[max(0, i-n+1)]; !got.Equal(want) {
						t.Errorf("%s: newest %d of %d: %v, want %v", text, n, i+1, got, want)
					}
				}
			}
		}
		if got := s.last(noon, all[0].Add(-1)); !got.IsZero() {
			t.Errorf("%s: %v before the first one", text, got)
		}
	}
}

// TestLastIsQuick: with a tick each second, the last tick of five years is found with at most 200 calls
// of the schedule.
func TestLastIsQuick(t *testing.T) {
	counted := &counting{Schedule: cron.Every(time.Second)}
	s := ticks{counted}
	if got := s.last(noon, noon.AddDate(5, 0, 0)); !got.Equal(noon.AddDate(5, 0, 0)) {
		t.Errorf("got %v", got)
	}
	if counted.calls > 200 {
		t.Errorf("%d calls", counted.calls)
	}
}

type counting struct {
	cron.Schedule
	calls int
}

func (c *counting) Next(t time.Time) time.Time {
	c.calls++
	return c.Schedule.Next(t)
}

func TestNearest(t *testing.T) {
	s := must(t, "@daily")
	for now, want := range map[time.Time]time.Time{
		noon.Add(-time.Minute):     noon.Add(-12 * time.Hour),
		noon.Add(time.Minute):      noon.Add(12 * time.Hour),
		noon.Add(12 * time.Hour):   noon.Add(12 * time.Hour),
		noon.Add(12*time.Hour + 1): noon.Add(12 * time.Hour),
	} {
		if got := s.nearest(now); !got.Equal(want) {
			t.Errorf("nearest to %v: %v, want %v", now, got, want)
		}
	}
	if got := (ticks{never{}}).nearest(noon); !got.IsZero() {
		t.Errorf("nearest of none: %v", got)
	}
}

// never is a schedule that has no later tick: Next returns its argument.
type never struct{}

func (never) Next(t time.Time) time.Time { return t }

func TestRecord(t *testing.T) {
	var r record
	r.Upto = at(0)
	for i := range maxRuns + 3 {
		r.start(Run{Tick: at(float64(i + 1)), Token: fmt.Sprint(i)}, false)
	}
	if len(r.Runs) != maxRuns || !r.Upto.Equal(at(maxRuns+3)) {
		t.Errorf("%d runs, upto %v", len(r.Runs), r.Upto)
	}
	r.finish(Run{Tick: at(1), Token: "0", Outcome: Done}) // not kept any more
	r.finish(Run{Tick: at(5), Token: "4", Outcome: Done})
	if i := slices.IndexFunc(r.Runs, func(run Run) bool { return run.Outcome == Done }); i < 0 || r.Runs[i].Token != "4" {
		t.Errorf("finished run %d", i)
	}
	if !r.Upto.Equal(at(maxRuns + 3)) {
		t.Errorf("a tick went down: %v", r.Upto)
	}
	data, err := r.encode()
	iferr.Fatal(t, err)
	if back, err := decode(data); err != nil || len(back.Runs) != maxRuns || !back.Upto.Equal(r.Upto) {
		t.Errorf("%+v, %v", back, err)
	}
	for _, bad := range []string{"x", "{}", `{"holdfast":2,"upto":"2026-01-01T00:00:00Z"}`, `{"holdfast":1}`} {
		if _, err := decode([]byte(bad)); err == nil {
			t.Errorf("%s was taken for a record", bad)
		}
	}
}
