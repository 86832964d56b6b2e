package main

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/compare/ticks"
	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

// noon is the time from which noonAnd counts seconds.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func noonAnd(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

// line makes a record. The times are in seconds after noon.
func line(op string, tick, now float64) *crew.Record {
	return &crew.Record{Op: op, Tick: noonAnd(tick).UnixNano(), Call: monotonic.Instant(noonAnd(now).Sub(noon))}
}

func TestCountTicks(t *testing.T) {
	once := []*crew.Record{line(ticks.Begin, 1, 1.01), line(ticks.End, 1, 1.02)}
	for name, c := range map[string]struct {
		log                []*crew.Record
		atMost, atLeastOne figures
	}{
		"nothing":         {nil, figures{missed: 1}, figures{missed: 1}},
		"once":            {once, figures{once: 1, latest: 10 * time.Millisecond}, figures{once: 1, latest: 10 * time.Millisecond}},
		"another tick":    {[]*crew.Record{line(ticks.Begin, 2, 2), line(ticks.End, 2, 2)}, figures{missed: 1}, figures{missed: 1}},
		"twice":           {slices.Concat(once, once), figures{twice: 1, latest: 10 * time.Millisecond}, figures{twice: 1, latest: 10 * time.Millisecond}},
		"interrupted":     {[]*crew.Record{line(ticks.Begin, 1, 1)}, figures{interrupted: 1}, figures{interrupted: 1}},
		"and again":       {[]*crew.Record{line(ticks.Begin, 1, 1), line(ticks.Begin, 1, 5), line(ticks.End, 1, 5)}, figures{twice: 1}, figures{again: 1}},
		"told, not begun": {[]*crew.Record{line(ticks.Unfinished, 1, 9)}, figures{interrupted: 1}, figures{interrupted: 1}},
		"late":            {[]*crew.Record{line(ticks.Begin, 1, 4), line(ticks.End, 1, 4)}, figures{once: 1, late: 1, latest: 3 * time.Second}, figures{once: 1, late: 1, latest: 3 * time.Second}},
	} {
		for atLeastOnce, want := range map[bool]figures{false: c.atMost, true: c.atLeastOne} {
			want.atLeastOnce = atLeastOnce
			if got := countTicks(c.log, ticks.Group{AtLeastOnce: atLeastOnce}, noonAnd(1), noonAnd(1), noon); got != want {
				t.Errorf("%s, at least once %v: %+v, want %+v", name, atLeastOnce, got, want)
			}
		}
	}
}
