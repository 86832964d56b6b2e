package ticks

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// noon is the time from which at counts seconds.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

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
