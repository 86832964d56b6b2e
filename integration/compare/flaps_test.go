package main

import (
	"context"
	"fmt"
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
	short = contender{asked: "Remaining() > 0"}
	rides = contender{asked: "Remaining() > 0", rides: true}
)

func TestPairPromises(t *testing.T) {
	lost := zkserver.Line{At: after(6), Text: "lease expired"}
	for name, test := range map[string]struct {
		run  pairRun
		want string // part of the message about the one broken promise; "": all are kept
	}{
		"kept":               {pairRun{contender: rides, in: after(20.1), unlocked: after(20), unlock: peers.OK, left: peers.OK}, ""},
		"lost, told first":   {pairRun{contender: short, in: after(8), held: "no", told: lost, unlocked: after(20), unlock: "lost", left: peers.OK}, ""},
		"told later":         {pairRun{contender: short, in: after(5), held: "no", told: lost, unlocked: after(20), unlock: "lost", left: peers.OK}, "for 1.0 s"},
		"never told":         {pairRun{contender: short, in: after(5), held: "no", unlocked: after(20), unlock: peers.OK, left: peers.OK}, "for 15.0 s"},
		"valid all the same": {pairRun{contender: short, in: after(8), held: "yes", told: lost, unlocked: after(20), unlock: "lost", left: peers.OK}, "Remaining() > 0 of the first's hold said yes"},
		"wedged":             {pairRun{contender: short, told: lost, unlocked: after(20), unlock: "lost"}, "wedged"},
		"lost, unlock ok":    {pairRun{contender: short, in: after(8), held: "no", told: lost, unlocked: after(20), unlock: peers.OK, left: peers.OK}, "that was lost said ok"},
		"kept, unlock not":   {pairRun{contender: short, in: after(20.1), unlocked: after(20), unlock: "timeout", left: peers.OK}, "that was not lost said: timeout"},
		"second's unlock":    {pairRun{contender: short, in: after(20.1), unlocked: after(20), unlock: peers.OK, left: "lost"}, "second's hold said: lost"},
		"lost in time":       {pairRun{contender: rides, in: after(8), held: "no", told: lost, unlocked: after(20), unlock: "lost", left: peers.OK}, "outlives the fault"},
	} {
		test.run.struck = after(0)
		_, got := test.run.judge()
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestJudgeCuts: each promise that clients' records break is named, and counted.
func TestJudgeCuts(t *testing.T) {
	const second = monotonic.Instant(time.Second)
	for name, test := range map[string]struct {
		clients int // that come in, one each second
		more    []*crew.Record
		end     monotonic.Instant // in seconds
		cells   string
		want    string
	}{
		"kept":          {takers, nil, takers, "[moves 1.0 s 0 0 0]", ""},
		"wedged":        {takers - 1, nil, takers, "[**wedged**: 16 of 17 came in 1.0 s 0 0 0]", "only 16 of 17"},
		"long pause":    {takers, nil, takers + 7, "[moves 7.0 s 0 0 0]", "no client came in for 7.0 s"},
		"two at once":   {takers, []*crew.Record{turn("a", second/2, second+1)}, takers, "[moves 1.0 s 0 0 1]", "1 times while another was in"},
		"lock failed":   {takers, []*crew.Record{crew.NewRecord(crew.OpTry, "4")}, takers, "[moves 1.0 s 1 0 0]", "Lock failed 1 times"},
		"unlock failed": {takers, []*crew.Record{crew.NewRecord(crew.OpLeft, "4")}, takers, "[moves 1.0 s 0 1 0]", "Unlock 1 times"},
	} {
		var records []*crew.Record
		for i := range test.clients {
			at := monotonic.Instant(i+1) * second
			records = append(records, turn(fmt.Sprint(i), at, at+second/4))
		}
		cells, got := judgeCuts(append(records, test.more...), second/4, second/4, test.end*second)
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) || fmt.Sprint(cells) != test.cells {
			t.Errorf("%s: %q, want %q; %v, want %s", name, got, test.want, cells, test.cells)
		}
	}
}

func turn(client string, in, out monotonic.Instant) *crew.Record {
	return &crew.Record{Op: crew.OpGrant, Worker: client, Hold: client, Return: in, Claim: &monotonic.Claim{From: in, To: in, Until: out}}
}

// TestKillCaught: a lock whose sessions end with it is told to be Holdfast, and is caught: zk.Lock
// lets a second client in before the first is told.
func TestKillCaught(t *testing.T) {
	t.Parallel()
	zkserver.NeedReal(t)
	wrong := peerOf(flapPeers, "zk.Lock")
	wrong.name = "Holdfast, but as zk.Lock"
	quick := scenario{"kill", "", pairHead, func(ctx context.Context, t *trial) ([]any, breaches) {
		return t.pair(ctx, 10*time.Second, func(holder *peers.Client) error {
			holder.Relay.Stall()                               // so that the second comes in before the first is told, also on a busy machine
			time.AfterFunc(5*time.Second, holder.Relay.Resume) // wall clock: so that the first is told while it works
			return holder.Tap.Expire(ctx, t.server)
		}).judge()
	}}
	right := flapPeers[1]
	right.servers = startZooKeeper
	k := kind{name: "flaps", servers: 1, peers: []peer{right, wrong}, scenarios: []scenario{quick}}
	r, err := k.run(t.Context(), 0, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.broken) != 1 || !strings.Contains(r.broken[0], "Holdfast, but as zk.Lock, round 1: the second came in while the first had the lock") {
		t.Errorf("%q", r.broken)
	}
	if rows := r.tables[0].rows; len(rows) != 2 || rows[0][0] != "Holdfast, TTL 30 s" {
		t.Errorf("%q", rows)
	}
}
