package ticks

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

// noon is the time from which at counts seconds.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

// line makes a record. The times are in seconds after noon.
func line(op string, tick, now float64) *crew.Record {
	return &crew.Record{Op: op, Tick: at(tick).UnixNano(), Call: monotonic.Instant(at(now).Sub(noon))}
}

func TestCount(t *testing.T) {
	once := []*crew.Record{line(Begin, 1, 1.01), line(End, 1, 1.02)}
	for name, c := range map[string]struct {
		log                []*crew.Record
		atMost, atLeastOne Figures
	}{
		"nothing":         {nil, Figures{Missed: 1}, Figures{Missed: 1}},
		"once":            {once, Figures{Once: 1, Latest: 10 * time.Millisecond}, Figures{Once: 1, Latest: 10 * time.Millisecond}},
		"another tick":    {[]*crew.Record{line(Begin, 2, 2), line(End, 2, 2)}, Figures{Missed: 1}, Figures{Missed: 1}},
		"twice":           {slices.Concat(once, once), Figures{Twice: 1, Latest: 10 * time.Millisecond}, Figures{Twice: 1, Latest: 10 * time.Millisecond}},
		"interrupted":     {[]*crew.Record{line(Begin, 1, 1)}, Figures{Interrupted: 1}, Figures{Interrupted: 1}},
		"and again":       {[]*crew.Record{line(Begin, 1, 1), line(Begin, 1, 5), line(End, 1, 5)}, Figures{Twice: 1}, Figures{Again: 1}},
		"told, not begun": {[]*crew.Record{line(Unfinished, 1, 9)}, Figures{Interrupted: 1}, Figures{Interrupted: 1}},
		"late":            {[]*crew.Record{line(Begin, 1, 4), line(End, 1, 4)}, Figures{Once: 1, Late: 1, Latest: 3 * time.Second}, Figures{Once: 1, Late: 1, Latest: 3 * time.Second}},
	} {
		for atLeastOnce, want := range map[bool]Figures{false: c.atMost, true: c.atLeastOne} {
			want.AtLeastOnce = atLeastOnce
			if got := Count(c.log, Group{AtLeastOnce: atLeastOnce}, at(1), at(1), noon); got != want {
				t.Errorf("%s, at least once %v: %+v, want %+v", name, atLeastOnce, got, want)
			}
		}
	}
}

// TestTick: each second of a wall clock counts as one tick, and the seconds of right time are
// covered without a gap, however far the clock is off.
func TestTick(t *testing.T) {
	for _, ahead := range []time.Duration{0, 3*time.Hour + 200*time.Millisecond, -5*time.Hour - 499*time.Millisecond, 501 * time.Millisecond} {
		c := clock{ahead}
		due := c.tick(at(0).Add(ahead)).Add(ahead).Truncate(Interval) // a whole second of the wall clock
		for i := range 5 {
			wall := due.Add(time.Duration(i) * Interval)
			tick := c.tick(wall)
			if far := tick.Sub(wall.Add(-ahead)).Abs(); far > Interval/2 || !tick.Equal(tick.Truncate(Interval)) {
				t.Errorf("%v off: the run at %v is of the tick %v", ahead, wall.Add(-ahead), tick)
			}
			for _, late := range []time.Duration{-50 * time.Millisecond, 300 * time.Millisecond} {
				if got := c.tick(wall.Add(late)); !got.Equal(tick) {
					t.Errorf("%v off, %v late: %v, want %v", ahead, late, got, tick)
				}
			}
			if next := c.tick(wall.Add(Interval)); !next.Equal(tick.Add(Interval)) {
				t.Errorf("%v off: after %v comes %v", ahead, tick, next)
			}
		}
	}
}

// TestWallClock: a replica's time.Now is ahead by the value of wallEnv.
func TestWallClock(t *testing.T) {
	program, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for ahead, want := range map[string]time.Duration{"3600500000000": time.Hour + 500*time.Millisecond, "-7200000000001": -2*time.Hour - 1, "": 0} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = []string{wallEnv + "=" + ahead, ReplicaEnv + "={}"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(out)))
		if off := time.Until(now); err != nil || (off-want).Abs() > 5*time.Second {
			t.Errorf("%s: %v, %v off, want %v", ahead, err, off, want)
		}
	}
}
