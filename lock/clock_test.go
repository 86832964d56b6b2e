package lock

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

func at(mono time.Duration) instant { return instant{mono: mono, wall: mono + 1000*time.Hour} }

// TestWindowHoldsTheLeadersClock draws a leader and a client whose clock runs
// wrong by up to the allowed rate, and looks whether the window always has the
// leader's time in it.
func TestWindowHoldsTheLeadersClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const day = 24 * time.Hour
		ppm := time.Duration(rapid.IntRange(-499, 499).Draw(t, "ppm"))
		local := func(real time.Duration) instant {
			return at(real + time.Duration(float64(real)*float64(ppm)/1e6))
		}
		leader := func(real time.Duration) time.Duration { return 1767225600*time.Second + real }
		span := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		sent := span("sent", day)
		stamped := sent + span("to leader", 10*time.Second)
		received := stamped + span("back", 10*time.Second)
		later := received + span("later", day)

		var c ensembleClock
		c.observe(1, leader(stamped).Milliseconds(), local(sent), local(received))
		w, zxid := c.at(local(later))
		if now := leader(later); now < w.lower || now > w.upper || zxid != 1 {
			t.Fatalf("the leader's clock shows %v, outside of %v", now, w)
		}
		if most := later - sent + (later-sent)/500 + 2*ms - (later - received); w.width() > most {
			t.Fatalf("window %v is %v wide, want at most %v", w, w.width(), most)
		}
	})
}

func TestOnlyYoungerSamplesCount(t *testing.T) {
	var c ensembleClock
	if _, zxid := c.at(at(0)); zxid != 0 {
		t.Fatalf("a clock without a sample claims one of zxid %d", zxid)
	}
	c.observe(7, 5000, at(0), at(2*ms))
	c.observe(6, 900, at(3*ms), at(4*ms)) // an older transaction, answered late
	c.observe(7, 900, at(3*ms), at(4*ms))
	if w, zxid := c.at(at(2 * ms)); zxid != 7 || w.lower != 5000*ms || w.upper != 5003*ms+2*ms/rateError {
		t.Errorf("window %v of zxid %d", w, zxid)
	}
	c.observe(8, 4000, at(10*ms), at(11*ms)) // a step back: followed, and counted
	if w, _ := c.at(at(11 * ms)); w.lower != 4000*ms {
		t.Errorf("window %v does not follow the leader", w)
	}
	if c.displacements != 1 {
		t.Errorf("%d displacements counted, want 1", c.displacements)
	}
}

func TestDisplacement(t *testing.T) {
	last := sample{zxid: 1, stamp: 1000 * ms, sent: at(0), received: at(10 * ms)}
	for _, tt := range []struct {
		stamp, want time.Duration
	}{
		{1100 * ms, 0},
		{1090 * ms, 0},                          // stamped as the first one was received
		{1088 * ms, 1088*ms - (1090*ms - 45e3)}, // earlier than it can be
		{1106 * ms, 0},                          // both took as long as they could
		{1107 * ms, 1107*ms - (1106*ms + 52500)},
		{5000 * ms, 5000*ms - (1106*ms + 52500)},
	} {
		next := sample{zxid: 2, stamp: tt.stamp, sent: at(100 * ms), received: at(105 * ms)}
		if got := displacement(last, next); got != tt.want {
			t.Errorf("stamp %v: displacement %v, want %v", tt.stamp, got, tt.want)
		}
		if got := displacement(sample{}, next); got != 0 {
			t.Errorf("stamp %v: displacement %v from no sample", tt.stamp, got)
		}
	}
}

func TestSuspendWidensTheWindow(t *testing.T) {
	s := sample{zxid: 1, stamp: 1000 * ms, sent: at(0), received: at(0)}
	awake := at(10 * ms)
	awake.wall += time.Hour // the machine slept: CLOCK_MONOTONIC stood still
	if w := s.at(awake); w.upper < 1010*ms+time.Hour || w.lower > 1010*ms {
		t.Errorf("window after a suspend of an hour: %v", w)
	}
	back := at(10 * ms)
	back.wall -= time.Hour // a step back of the wall clock means nothing
	if w, want := s.at(back), s.at(at(10*ms)); w != want {
		t.Errorf("window after a step back: %v, want %v", w, want)
	}
}

func TestJudge(t *testing.T) {
	const grace = 400 * ms
	var c ensembleClock
	if got, _ := c.judge(1, 1, grace, at(0)); got != unproven {
		t.Errorf("without a sample: %v, want unproven", got)
	}
	c.observe(10, 1000, at(0), at(0)) // 1000 ms at 0
	for _, tt := range []struct {
		name       string
		end, mzxid int64
		now        time.Duration
		want       verdict
	}{
		{"long before the end", 2000, 5, 0, live},
		{"at the end", 1000, 5, 0, live},
		{"past it", 999, 5, 0, expired},
		{"past it by rate error only", 2000, 5, 1000*ms + 400*time.Microsecond, live},
		{"past it for certain", 2000, 5, 1001 * ms, expired},
		{"the record is as young as the sample", 999, 10, 0, unproven},
		{"the record is younger", 999, 11, 5000 * ms, unproven},
		{"the record is younger and lives", 9000, 11, 5000 * ms, live},
		{"before the end with a wide window", 400_000, 5, 200_000 * ms, live},
		{"near the end with a wide window", 201_000, 5, 200_000 * ms, unproven},
		{"past the end with a wide window", 200_800, 5, 200_000 * ms, expired},
	} {
		got, wait := c.judge(tt.end, tt.mzxid, grace, at(tt.now))
		if got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if got == live {
			// Whoever waits that long comes to another answer.
			if again, _ := c.judge(tt.end, tt.mzxid, grace, at(tt.now+wait)); again == live {
				t.Errorf("%s: still live after the wait of %v", tt.name, wait)
			}
		}
	}
}

// TestSleepIsCounted, though it is not asked each time how long the machine slept: not
// while the clocks go on together, but however the wall clock was set since it woke.
func TestSleepIsCounted(t *testing.T) {
	at := instant{mono: time.Minute, wall: 400 * time.Hour}
	slept, asked := 5*time.Hour, 0
	now := countSleep(func() instant { return at }, func() time.Duration { asked++; return slept })
	goOn := func(d time.Duration) { at.mono, at.wall = at.mono+d, at.wall+d }
	sleep := func(d time.Duration) { at.wall, slept = at.wall+d, slept+d }
	var want time.Duration
	check := func(what string, mono time.Duration, asks int) {
		t.Helper()
		want += mono
		if got := now(); got.mono-time.Minute != want || got.wall != at.wall || asked != asks {
			t.Errorf("%s: %v has passed and it was asked %d times, want %v and %d", what, got.mono-time.Minute, asked, want, asks)
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
	at.wall -= 10 * time.Second
	check("slept, and the wall clock was set back", time.Second, 3)
	sleep(time.Second)
	at.wall += time.Second
	check("slept, and the wall clock was set forward", time.Second, 4)
	at.wall -= time.Hour
	check("the wall clock was set back", 0, 5)
	check("at once", 0, 5)
}
