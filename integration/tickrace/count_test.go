package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// noon is the time from which at counts seconds.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

// line returns a line of a log. The times are in seconds after noon.
func line(word string, tick, now float64) string {
	return fmt.Sprintf("%s %d r0.0 %d\n", word, at(tick).UnixNano(), at(now).UnixNano())
}

func TestCount(t *testing.T) {
	once := line(wordBegin, 1, 1.01) + line(wordEnd, 1, 1.02)
	for name, c := range map[string]struct {
		log                string
		atMost, atLeastOne numbers
	}{
		"nothing":           {"", numbers{Missed: 1}, numbers{Missed: 1}},
		"once":              {once, numbers{Once: 1, Latest: 10 * time.Millisecond}, numbers{Once: 1, Latest: 10 * time.Millisecond}},
		"another tick":      {line(wordBegin, 2, 2) + line(wordEnd, 2, 2), numbers{Missed: 1}, numbers{Missed: 1}},
		"twice":             {once + once, numbers{Twice: 1, Latest: 10 * time.Millisecond}, numbers{Twice: 1, Latest: 10 * time.Millisecond}},
		"interrupted":       {line(wordBegin, 1, 1), numbers{Interrupted: 1}, numbers{Interrupted: 1}},
		"and again":         {line(wordBegin, 1, 1) + line(wordBegin, 1, 5) + line(wordEnd, 1, 5), numbers{Twice: 1}, numbers{Again: 1}},
		"told, not begun":   {line(wordUnfinished, 1, 9), numbers{Interrupted: 1}, numbers{Interrupted: 1}},
		"late":              {line(wordBegin, 1, 4) + line(wordEnd, 1, 4), numbers{Once: 1, Late: 1, Latest: 3 * time.Second}, numbers{Once: 1, Late: 1, Latest: 3 * time.Second}},
		"the end is cut":    {strings.TrimSuffix(once, "\n"), numbers{Interrupted: 1, Latest: 10 * time.Millisecond}, numbers{Interrupted: 1, Latest: 10 * time.Millisecond}},
		"nothing but a cut": {"beg", numbers{Missed: 1}, numbers{Missed: 1}},
	} {
		for atLeastOnce, want := range map[bool]numbers{false: c.atMost, true: c.atLeastOne} {
			got, err := count(c.log, group{AtLeastOnce: atLeastOnce}, at(1), at(1))
			if err != nil || got != want {
				t.Errorf("%s, at least once %v: %+v, %v, want %+v", name, atLeastOnce, got, err, want)
			}
		}
	}
	for _, wrong := range []string{"begin 1\n", "start 1 r0.0 1\n", "begin x r0.0 1\n"} {
		if _, err := count(wrong, group{}, at(1), at(1)); err == nil {
			t.Errorf("%q was taken for a line", wrong)
		}
	}
}

func TestBroken(t *testing.T) {
	for name, c := range map[string]struct {
		figures figures
		want    string
	}{
		"kept":                           {figures{Ours: true, numbers: numbers{Once: 9, Interrupted: 1}}, ""},
		"twice":                          {figures{Ours: true, numbers: numbers{Twice: 1}}, "1 ticks ran twice"},
		"missed":                         {figures{Ours: true, numbers: numbers{Missed: 1}}, "1 ticks were missed"},
		"at least once, twice":           {figures{Ours: true, AtLeastOnce: true, numbers: numbers{Twice: 1, Again: 1}}, ""},
		"at least once, and interrupted": {figures{Ours: true, AtLeastOnce: true, numbers: numbers{Interrupted: 1}}, "1 ticks were begun and never ended"},
		"not ours":                       {figures{numbers: numbers{Twice: 1, Missed: 1}}, ""},
	} {
		var said []string
		for _, err := range (result{Groups: []figures{c.figures}}).broken() {
			said = append(said, err.Error())
		}
		if got := strings.Join(said, "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTick: each second of a wall clock counts as one tick, and the seconds of right time are
// covered without a gap, however far the clock is off.
func TestTick(t *testing.T) {
	for _, ahead := range []time.Duration{0, 3*time.Hour + 200*time.Millisecond, -5*time.Hour - 499*time.Millisecond, 501 * time.Millisecond} {
		c := clock{ahead}
		due := c.tick(at(0).Add(ahead)).Add(ahead).Truncate(interval) // a whole second of the wall clock
		for i := range 5 {
			wall := due.Add(time.Duration(i) * interval)
			tick := c.tick(wall)
			if far := tick.Sub(wall.Add(-ahead)).Abs(); far > interval/2 || !tick.Equal(tick.Truncate(interval)) {
				t.Errorf("%v off: the run at %v is of the tick %v", ahead, wall.Add(-ahead), tick)
			}
			for _, late := range []time.Duration{-50 * time.Millisecond, 300 * time.Millisecond} {
				if got := c.tick(wall.Add(late)); !got.Equal(tick) {
					t.Errorf("%v off, %v late: %v, want %v", ahead, late, got, tick)
				}
			}
			if next := c.tick(wall.Add(interval)); !next.Equal(tick.Add(interval)) {
				t.Errorf("%v off: after %v comes %v", ahead, tick, next)
			}
		}
	}
}

// TestPlans: a race has faults, at most one at a time for a replica. At most mostDown replicas are
// down at once, and all replicas run at the end.
func TestPlans(t *testing.T) {
	for seed := range uint64(50) {
		const duration = 5 * time.Minute
		faults := planFaults(seed, duration)
		if len(faults) < 15 {
			t.Errorf("seed %d: %d faults", seed, len(faults))
		}
		for i, f := range faults {
			down := 1
			for _, other := range faults[:i] {
				if other.at+other.lasts < f.at {
					continue
				}
				if down++; other.replica == f.replica {
					t.Errorf("seed %d: %+v, while %+v", seed, f, other)
				}
			}
			if down > mostDown || f.at+f.lasts > duration || f.lasts < 0 {
				t.Errorf("seed %d: %+v, with %d down", seed, f, down)
			}
		}
	}
}
