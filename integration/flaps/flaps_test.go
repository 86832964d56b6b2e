package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// at returns the time s seconds after the fault.
func at(s float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second)))
}

var (
	ours  = &contender{title: "Holdfast", asked: "Remaining() > 0", ours: true}
	rides = &contender{title: "Holdfast, long", asked: "Remaining() > 0", ours: true, rides: true}
)

func TestPairPromises(t *testing.T) {
	lost := zkserver.Line{At: at(6), Text: "lease expired"}
	for name, test := range map[string]struct {
		run  pairRun
		want string // part of the message about the one broken promise; "": all are kept
	}{
		"kept":               {pairRun{contender: rides, in: at(20.1), unlocked: at(20), unlock: ok, left: ok}, ""},
		"lost, told first":   {pairRun{contender: ours, in: at(8), asked: "no", told: lost, unlocked: at(20), unlock: "lost", left: ok}, ""},
		"told later":         {pairRun{contender: ours, in: at(5), asked: "no", told: lost, unlocked: at(20), unlock: "lost", left: ok}, "for 1.0 s"},
		"never told":         {pairRun{contender: ours, in: at(5), asked: "no", unlocked: at(20), unlock: ok, left: ok}, "for 15.0 s"},
		"valid all the same": {pairRun{contender: ours, in: at(8), asked: "yes", told: lost, unlocked: at(20), unlock: "lost", left: ok}, "Remaining() > 0 of the first's hold said yes"},
		"wedged":             {pairRun{contender: ours, told: lost, unlocked: at(20), unlock: "lost"}, "wedged"},
		"lost, unlock ok":    {pairRun{contender: ours, in: at(8), asked: "no", told: lost, unlocked: at(20), unlock: ok, left: ok}, "that was lost said ok"},
		"kept, unlock not":   {pairRun{contender: ours, in: at(20.1), unlocked: at(20), unlock: "timeout", left: ok}, "that was not lost said: timeout"},
		"second's unlock":    {pairRun{contender: ours, in: at(20.1), unlocked: at(20), unlock: ok, left: "lost"}, "second's hold said: lost"},
		"lost in time":       {pairRun{contender: rides, in: at(8), asked: "no", told: lost, unlocked: at(20), unlock: "lost", left: ok}, "outlives the fault"},
	} {
		test.run.struck = at(0)
		got := test.run.broken()
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestCutsPromises(t *testing.T) {
	one, overlapping := turn{"1", at(1), at(2)}, turn{"2", at(1.5), at(1.6)}
	for name, test := range map[string]struct {
		run  cutsRun
		want string
	}{
		"kept":          {cutsRun{served: takers, turns: &turns{all: []turn{one, {"2", at(2), at(3)}}}}, ""},
		"wedged":        {cutsRun{served: takers - 1, turns: &turns{}}, "only 16 of 17"},
		"long pause":    {cutsRun{served: takers, turns: &turns{}, pause: 7 * time.Second}, "no client came in for 7.0 s"},
		"two at once":   {cutsRun{served: takers, turns: &turns{all: []turn{overlapping, one}}}, "1 times while another was in"},
		"lock failed":   {cutsRun{served: takers, turns: &turns{failedLocks: 2}}, "Lock failed 2 times"},
		"unlock failed": {cutsRun{served: takers, turns: &turns{failedUnlocks: 3}}, "Unlock 3 times"},
		"lost":          {cutsRun{served: takers, turns: &turns{}, told: 1}, "1 holds were lost"},
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

func TestVerdict(t *testing.T) {
	pair := func(c *contender, in float64, err error) *run {
		return &run{scenario: stall, contender: c, round: 1, err: err, outcome: &pairRun{contender: c, struck: at(0), in: at(in), unlocked: at(20), unlock: ok, left: ok}}
	}
	peer := &contender{title: "other"}
	kept, wrong, absent := pair(ours, 20.1, nil), pair(peer, 1, nil), pair(peer, 20.1, errors.New("no |\npackage"))
	wedged := &run{scenario: cuts, contender: ours, round: 1, outcome: &cutsRun{turns: &turns{}}}
	for name, test := range map[string]struct {
		report report
		kept   bool
		want   string
	}{
		"kept, others did not": {report{runs: []*run{kept, wrong}}, true, "| other | 1.0 s | – | – | 19.0 s | cannot be asked | ok |"},
		"without a package":    {report{runs: []*run{kept, absent}}, true, `| other | not measured: no \| package | | | | | |`},
		"not kept":             {report{runs: []*run{pair(ours, 1, nil)}}, false, "stall, Holdfast, round 1: the second came in while"},
		"not carried out":      {report{runs: []*run{pair(ours, 20.1, errors.New("no server"))}}, false, "could not be carried out: no server"},
		"wedged":               {report{runs: []*run{wedged}}, false, "| **wedged**: 0 of 17 came in |"},
		"took no part":         {report{runs: []*run{pair(peer, 20.1, nil)}}, false, "took no part"},
	} {
		var out bytes.Buffer
		if got := test.report.print(&out); got != test.kept || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: %v, want %v with %q\n%s", name, got, test.kept, test.want, &out)
		}
	}
}

func TestNewReport(t *testing.T) {
	r, err := newReport([]string{"holdfast", "kazoo"}, []string{"stall", "cuts"}, 2)
	if err != nil || len(r.runs) != 2*2+3+2 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, wrong := range []struct {
		locks, scenario, want string
		rounds                int
	}{
		{"flock", "stall", `unknown lock "flock"`, 1},
		{"kazoo", "flood", `unknown scenario "flood"`, 1},
		{"kazoo", "stall", "at least 1", 0},
	} {
		if _, err := newReport([]string{wrong.locks}, []string{wrong.scenario}, wrong.rounds); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
