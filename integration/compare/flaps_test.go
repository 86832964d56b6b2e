package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/peers"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// after returns the time s seconds after the fault.
func after(s float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second)))
}

var (
	short = contender{title: "Holdfast", asked: "Remaining() > 0"}
	rides = contender{title: "Holdfast, long", asked: "Remaining() > 0", rides: true}
)

func TestPairPromises(t *testing.T) {
	lost := zkserver.Line{At: after(6), Text: "lease expired"}
	for name, test := range map[string]struct {
		run  pairRun
		want string // part of the message about the one broken promise; "": all are kept
	}{
		"kept":               {pairRun{contender: rides, in: after(20.1), unlocked: after(20), unlock: ok, left: ok}, ""},
		"lost, told first":   {pairRun{contender: short, in: after(8), held: "no", told: lost, unlocked: after(20), unlock: "lost", left: ok}, ""},
		"told later":         {pairRun{contender: short, in: after(5), held: "no", told: lost, unlocked: after(20), unlock: "lost", left: ok}, "for 1.0 s"},
		"never told":         {pairRun{contender: short, in: after(5), held: "no", unlocked: after(20), unlock: ok, left: ok}, "for 15.0 s"},
		"valid all the same": {pairRun{contender: short, in: after(8), held: "yes", told: lost, unlocked: after(20), unlock: "lost", left: ok}, "Remaining() > 0 of the first's hold said yes"},
		"wedged":             {pairRun{contender: short, told: lost, unlocked: after(20), unlock: "lost"}, "wedged"},
		"lost, unlock ok":    {pairRun{contender: short, in: after(8), held: "no", told: lost, unlocked: after(20), unlock: ok, left: ok}, "that was lost said ok"},
		"kept, unlock not":   {pairRun{contender: short, in: after(20.1), unlocked: after(20), unlock: "timeout", left: ok}, "that was not lost said: timeout"},
		"second's unlock":    {pairRun{contender: short, in: after(20.1), unlocked: after(20), unlock: ok, left: "lost"}, "second's hold said: lost"},
		"lost in time":       {pairRun{contender: rides, in: after(8), held: "no", told: lost, unlocked: after(20), unlock: "lost", left: ok}, "outlives the fault"},
	} {
		test.run.struck = after(0)
		got := test.run.broken()
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestCutsPromises: broken names each promise that the figures break, and judgeCuts counts them.
func TestCutsPromises(t *testing.T) {
	for name, test := range map[string]struct {
		run  cutsRun
		want string
	}{
		"kept":          {cutsRun{served: takers}, ""},
		"wedged":        {cutsRun{served: takers - 1}, "only 16 of 17"},
		"long pause":    {cutsRun{served: takers, pause: 7 * time.Second}, "no client came in for 7.0 s"},
		"two at once":   {cutsRun{served: takers, doubles: 1}, "1 times while another was in"},
		"lock failed":   {cutsRun{served: takers, failedLocks: 2}, "Lock failed 2 times"},
		"unlock failed": {cutsRun{served: takers, failedUnlocks: 3}, "Unlock 3 times"},
	} {
		got := test.run.broken()
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	turn := func(client string, in, out monotonic.Instant) *crew.Record {
		return &crew.Record{Op: crew.OpGrant, Worker: client, Hold: client, Return: in, Claim: &monotonic.Claim{From: in, To: in, Until: out}}
	}
	got := judgeCuts([]*crew.Record{turn("1", 15, 21), turn("2", 20, 25), turn("3", 35, 39), crew.NewRecord(crew.OpTry, "4"), crew.NewRecord(crew.OpLeft, "4")}, 10, 18, 42)
	if want := (cutsRun{served: 2, pause: 15, doubles: 1, failedLocks: 1, failedUnlocks: 1}); *got != want {
		t.Errorf("%+v, want %+v", *got, want)
	}
}

// TestKillCaught: a lock whose sessions end with it is told to be Holdfast, and is caught: zk.Lock
// lets a second client in before the first is told.
func TestKillCaught(t *testing.T) {
	t.Parallel()
	zkserver.NeedReal(t)
	wrong := contenders[2]
	wrong.title = "Holdfast, but as zk.Lock"
	const works = 10 * time.Second
	quick := pairs("kill", "", works, func(ctx context.Context, holder *peers.Client, server string) error {
		holder.Relay.Stall()                         // so that the second comes in before the first is told, also on a busy machine
		time.AfterFunc(works/2, holder.Relay.Resume) // wall clock: so that the first is told while it works
		return holder.Tap.Expire(ctx, server)
	})
	k := kind{play: func(ctx context.Context, r *run, _ []string) error {
		return r.playScenarios(ctx, []contender{contenders[1], wrong}, []*scenario{quick})
	}}
	r, err := k.run(t.Context(), settings{"flaps", 0, time.Nanosecond, 1}, nil, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.broken) != 1 || !strings.Contains(r.broken[0], "Holdfast, but as zk.Lock, round 1: the second came in while the first had the lock") {
		t.Errorf("%q", r.broken)
	}
	if rows := r.Tables[0].Rows; len(rows) != 2 || rows[0][0] != "Holdfast, TTL 30 s" {
		t.Errorf("%q", rows)
	}
}
