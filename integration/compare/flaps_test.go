package main

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// after returns the time s seconds after the fault.
func after(s float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second)))
}

var (
	short = &contender{title: "Holdfast", asked: "Remaining() > 0"}
	rides = &contender{title: "Holdfast, long", asked: "Remaining() > 0", rides: true}
)

func TestPairPromises(t *testing.T) {
	lost := zkserver.Line{At: after(6), Text: "lease expired"}
	for name, test := range map[string]struct {
		run  pairRun
		want string // part of the message about the one broken promise; "": all are kept
	}{
		"kept":               {pairRun{contender: rides, in: after(20.1), unlocked: after(20), unlock: ok, left: ok}, ""},
		"lost, told first":   {pairRun{contender: short, in: after(8), asked: "no", told: lost, unlocked: after(20), unlock: "lost", left: ok}, ""},
		"told later":         {pairRun{contender: short, in: after(5), asked: "no", told: lost, unlocked: after(20), unlock: "lost", left: ok}, "for 1.0 s"},
		"never told":         {pairRun{contender: short, in: after(5), asked: "no", unlocked: after(20), unlock: ok, left: ok}, "for 15.0 s"},
		"valid all the same": {pairRun{contender: short, in: after(8), asked: "yes", told: lost, unlocked: after(20), unlock: "lost", left: ok}, "Remaining() > 0 of the first's hold said yes"},
		"wedged":             {pairRun{contender: short, told: lost, unlocked: after(20), unlock: "lost"}, "wedged"},
		"lost, unlock ok":    {pairRun{contender: short, in: after(8), asked: "no", told: lost, unlocked: after(20), unlock: ok, left: ok}, "that was lost said ok"},
		"kept, unlock not":   {pairRun{contender: short, in: after(20.1), unlocked: after(20), unlock: "timeout", left: ok}, "that was not lost said: timeout"},
		"second's unlock":    {pairRun{contender: short, in: after(20.1), unlocked: after(20), unlock: ok, left: "lost"}, "second's hold said: lost"},
		"lost in time":       {pairRun{contender: rides, in: after(8), asked: "no", told: lost, unlocked: after(20), unlock: "lost", left: ok}, "outlives the fault"},
	} {
		test.run.struck = after(0)
		got := test.run.broken()
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestCutsPromises(t *testing.T) {
	one, overlapping := turn{"1", after(1), after(2)}, turn{"2", after(1.5), after(1.6)}
	for name, test := range map[string]struct {
		run  cutsRun
		want string
	}{
		"kept":          {cutsRun{served: takers, turns: &turns{all: []turn{one, {"2", after(2), after(3)}}}}, ""},
		"wedged":        {cutsRun{served: takers - 1, turns: &turns{}}, "only 16 of 17"},
		"long pause":    {cutsRun{served: takers, turns: &turns{}, pause: 7 * time.Second}, "no client came in for 7.0 s"},
		"two at once":   {cutsRun{served: takers, turns: &turns{all: []turn{overlapping, one}}}, "1 times while another was in"},
		"lock failed":   {cutsRun{served: takers, turns: &turns{failedLocks: 2}}, "Lock failed 2 times"},
		"unlock failed": {cutsRun{served: takers, turns: &turns{failedUnlocks: 3}}, "Unlock 3 times"},
	} {
		got := test.run.broken()
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestPause(t *testing.T) {
	now := time.Now()
	ago := func(s float64) time.Time { return now.Add(-time.Duration(s * float64(time.Second))) }
	long := &turns{all: []turn{{in: ago(3)}, {in: ago(10)}, {in: ago(20)}}}
	if d := long.pause(ago(12)); d != 7*time.Second {
		t.Errorf("a pause between turns: %v", d)
	}
	if d := long.pause(ago(19)); d != 9*time.Second {
		t.Errorf("a pause before the first turn: %v", d)
	}
	if d := long.pause(ago(2)); d < 2*time.Second {
		t.Errorf("a pause without a turn: %v", d)
	}
}

// TestKillCaught: a lock whose sessions end with it is told to be Holdfast, and is caught: zk.Lock
// lets a second client in before the first is told.
func TestKillCaught(t *testing.T) {
	t.Parallel()
	b, err := newBench(zkserver.AddrForTest(t, zkserver.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer b.look.Close()
	quick := kill.begin(nil, 1).(*pairRun).fault
	quick.works = 3 * time.Second
	f := &flaps{out: t.Output(), programs: map[*contender]program{}, result: new(result)}
	wrong := *contenders[2]
	wrong.title = "Holdfast, but as zk.Lock"
	s := *kill
	s.begin = func(c *contender, round int) outcome { return &pairRun{fault: quick, contender: c, round: round} }
	both := []*contender{contenders[1], &wrong}
	f.result.Flaps = make([]flapResult, len(both))
	for _, c := range both {
		p, err := c.setUp(t.Context(), t.TempDir())
		f.programs[c] = program{p, err}
	}
	_ = wait.All(len(both), func(i int) error {
		f.result.Flaps[i] = flapResult{Scenario: "kill", Lock: both[i].title, Round: 1, scenario: &s, contender: both[i]}
		f.one(t.Context(), b, &f.result.Flaps[i])
		return nil
	})
	if broken := f.result.broken(); len(broken) != 1 || !strings.Contains(broken[0], "Holdfast, but as zk.Lock, round 1: the second came in while the first had the lock") {
		t.Errorf("%q", broken)
	}
	var out strings.Builder
	for _, t := range f.result.flapsTables() {
		t.write(&out)
	}
	if want := "| Holdfast, TTL 30 s |"; !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n| ") != 3 {
		t.Errorf("want %q in\n%s", want, &out)
	}
}
