package clock

import (
	"testing"
	"time"
)

// TestSleepIsCounted: sleep counts, however the wall clock was set since. While both clocks advance
// together, the system is not asked for the sleep again.
func TestSleepIsCounted(t *testing.T) {
	at := Instant{Mono: time.Minute, Wall: 400 * time.Hour}
	slept, asked := 5*time.Hour, 0
	now := countSleep(func() Instant { return at }, func() time.Duration { asked++; return slept })
	goOn := func(d time.Duration) { at.Mono, at.Wall = at.Mono+d, at.Wall+d }
	sleep := func(d time.Duration) { at.Wall, slept = at.Wall+d, slept+d }
	var want time.Duration
	check := func(what string, mono time.Duration, asks int) {
		t.Helper()
		want += mono
		if got := now(); got.Mono-time.Minute != want || got.Wall != at.Wall || asked != asks {
			t.Errorf("%s: %v has passed and it was asked %d times, want %v and %d", what, got.Mono-time.Minute, asked, want, asks)
		}
	}
	check("at once", 0, 1)
	for range 5 {
		goOn(time.Second)
		check("awake", time.Second, 1)
	}
	sleep(time.Hour)
	check("slept", time.Hour, 2)
	goOn(time.Second)
	check("awake again", time.Second, 2)
	sleep(time.Second)
	at.Wall -= 10 * time.Second
	check("slept, and the wall clock was set back", time.Second, 3)
	sleep(time.Second)
	at.Wall += time.Second
	check("slept, and the wall clock was set forward", time.Second, 4)
	at.Wall -= time.Hour
	check("the wall clock was set back", 0, 5)
	check("at once", 0, 5)
}

// TestDrift: the drift is the lead of the wall clock over the monotonic one, and never negative.
func TestDrift(t *testing.T) {
	from := Instant{Mono: time.Second, Wall: time.Hour}
	for _, tt := range []struct{ mono, wall, want time.Duration }{
		{0, 0, 0},
		{time.Minute, time.Minute, 0},
		{time.Minute, 3 * time.Minute, 2 * time.Minute},
		{time.Minute, 0, 0},
		{time.Minute, -time.Hour, 0},
	} {
		to := Instant{Mono: from.Mono + tt.mono, Wall: from.Wall + tt.wall}
		if got := Drift(from, to); got != tt.want {
			t.Errorf("%v on the monotonic clock and %v on the wall clock: %v, want %v", tt.mono, tt.wall, got, tt.want)
		}
	}
}

// TestMonotonicClock: the second of two readings of the machine's monotonic clock is not earlier.
func TestMonotonicClock(t *testing.T) {
	read := System()
	if a, b := read(), read(); a.Mono < 0 || b.Mono < a.Mono || a.Wall <= 0 {
		t.Errorf("read %+v, then %+v", a, b)
	}
}
