package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

// noon is the time from which noonAnd counts seconds.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func noonAnd(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

func instant(s float64) monotonic.Instant { return monotonic.Instant(noonAnd(s).Sub(epoch)) }

// line makes a record. The times are in seconds after noon.
func line(op string, tick, now float64) *crew.Record {
	return &crew.Record{Op: op, Tick: noonAnd(tick).UnixNano(), Call: instant(now)}
}

func TestCountTicks(t *testing.T) {
	type count = map[string]int
	run := []*crew.Record{line(opBegin, 1, 1.01), line(opEnd, 1, 1.02)}
	for name, c := range map[string]struct {
		log                 []*crew.Record
		atMost, atLeastOnce count
		latest              time.Duration
		late                int
	}{
		"nothing":         {nil, count{missed: 1}, count{missed: 1}, 0, 0},
		"once":            {run, count{once: 1}, count{once: 1}, 10 * time.Millisecond, 0},
		"another tick":    {[]*crew.Record{line(opBegin, 2, 2), line(opEnd, 2, 2)}, count{missed: 1}, count{missed: 1}, 0, 0},
		"twice":           {slices.Concat(run, run), count{twice: 1}, count{twice: 1}, 10 * time.Millisecond, 0},
		"interrupted":     {[]*crew.Record{line(opBegin, 1, 1)}, count{interrupted: 1}, count{interrupted: 1}, 0, 0},
		"and again":       {[]*crew.Record{line(opBegin, 1, 1), line(opBegin, 1, 5), line(opEnd, 1, 5)}, count{twice: 1}, count{again: 1}, 0, 0},
		"told, not begun": {[]*crew.Record{line(opUnfinished, 1, 9)}, count{interrupted: 1}, count{interrupted: 1}, 0, 0},
		"late":            {[]*crew.Record{line(opBegin, 1, 4), line(opEnd, 1, 4)}, count{once: 1}, count{once: 1}, 3 * time.Second, 1},
	} {
		for atLeastOnce, want := range map[bool]count{false: c.atMost, true: c.atLeastOnce} {
			got := countTicks(c.log, atLeastOnce, period{begun: instant(0.5), ended: instant(1.5)})
			if !maps.Equal(got.ticks, want) || got.latest.Round(time.Millisecond) != c.latest || got.late != c.late {
				t.Errorf("%s, at least once %v: %+v, want %v", name, atLeastOnce, got, want)
			}
		}
	}
}

// TestBrokenTicks: each promise of package schedule, by the records of a tick.
func TestBrokenTicks(t *testing.T) {
	for name, c := range map[string]struct {
		ops         []string
		atLeastOnce bool
		want        string
	}{
		"kept":                           {[]string{opBegin, opEnd}, false, ""},
		"interrupted":                    {[]string{opBegin}, false, ""},
		"twice":                          {[]string{opBegin, opBegin, opEnd}, false, "1 ticks ran twice"},
		"missed":                         {nil, false, "1 ticks were missed"},
		"at least once, twice":           {[]string{opBegin, opEnd, opBegin, opEnd}, true, ""},
		"at least once, and again":       {[]string{opBegin, opBegin, opEnd}, true, ""},
		"at least once, and interrupted": {[]string{opBegin}, true, "1 ticks were begun and never ended"},
	} {
		s := &system{peer{name: holdfast, job: job{atLeastOnce: c.atLeastOnce}}, new(crew.Team)}
		for _, op := range c.ops {
			s.History.Add(line(op, 1, 1))
		}
		p := period{begun: instant(0.5), ended: instant(1.5)}
		_, broken := judgeTicks(s, p)
		if got := strings.Join(append(broken, ticksDue(s, p)...), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTick: each second of a wall clock counts as one tick, and the seconds of right time are
// covered without a gap, however far the clock is off.
func TestTick(t *testing.T) {
	for _, ahead := range []time.Duration{0, 3*time.Hour + 200*time.Millisecond, -5*time.Hour - 499*time.Millisecond, 501 * time.Millisecond} {
		due := tickOf(noon.Add(ahead), ahead).Add(ahead).Truncate(interval) // a whole second of the wall clock
		for i := range 5 {
			wall := due.Add(time.Duration(i) * interval)
			tick := tickOf(wall, ahead)
			if far := tick.Sub(wall.Add(-ahead)).Abs(); far > interval/2 || !tick.Equal(tick.Truncate(interval)) {
				t.Errorf("%v off: the run at %v is of the tick %v", ahead, wall.Add(-ahead), tick)
			}
			for _, late := range []time.Duration{-50 * time.Millisecond, 300 * time.Millisecond} {
				if got := tickOf(wall.Add(late), ahead); !got.Equal(tick) {
					t.Errorf("%v off, %v late: %v, want %v", ahead, late, got, tick)
				}
			}
			if next := tickOf(wall.Add(interval), ahead); !next.Equal(tick.Add(interval)) {
				t.Errorf("%v off: after %v comes %v", ahead, tick, next)
			}
		}
	}
}

// TestWallClock: the time.Now of a program that buildOff has built is ahead by the value of wallEnv.
func TestWallClock(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(`package main

import ("fmt"; "time")

func main() { fmt.Println(time.Now().UTC().Format(time.RFC3339Nano)) }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := buildOff(t.Context(), dir, file)
	iferr.Fatal(t, err)
	for ahead, want := range map[string]time.Duration{"3600500000000": time.Hour + 500*time.Millisecond, "-7200000000001": -2*time.Hour - 1, "": 0} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = []string{wallEnv + "=" + ahead}
		out, err := cmd.Output()
		iferr.Fatal(t, err)
		now, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(out)))
		if off := time.Until(now); err != nil || (off-want).Abs() > 5*time.Second {
			t.Errorf("%s: %v, %v off, want %v", ahead, err, off, want)
		}
	}
}
