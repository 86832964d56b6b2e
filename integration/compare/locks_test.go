package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

// TestJudgeLock: a late write makes a set without a fence lose an update, and a fenced set refuses it.
// judgeLock counts the lost update, and one by equal tokens; and it counts and lists holds that overlap,
// tokens that are the same, and missing holds.
func TestJudgeLock(t *testing.T) {
	for name, c := range map[string]struct {
		steps       []string
		fenced      bool
		added, lost int
		refused     int
	}{
		"no fence":     {[]string{"read a 1", "read b 2", "act b 2", "act a 1"}, false, 2, 1, 0},
		"fenced":       {[]string{"read a 1", "read b 2", "act b 2", "act a 1"}, true, 1, 0, 1},
		"refused read": {[]string{"read b 2", "read a 1", "act a 1", "act b 2"}, true, 1, 0, 1},
		"equal tokens": {[]string{"read a 1", "read b 1", "act b 1", "act a 1"}, true, 2, 1, 0},
		"one by one":   {[]string{"read a 1", "act a 1", "read b 2", "act b 2"}, true, 2, 0, 0},
	} {
		var records []*crew.Record
		for i, step := range c.steps {
			r := &crew.Record{Call: monotonic.Instant(i), Lock: fencedWorkload}
			fmt.Sscan(step, &r.Op, &r.Hold, &r.Token)
			records = append(records, r)
		}
		kept, lost := keepSet(records, c.fenced)
		added := len(slices.DeleteFunc(slices.Clone(kept), func(r *crew.Record) bool { return r.Op != crew.OpAct }))
		refused := slices.DeleteFunc(kept, func(r *crew.Record) bool { return r.Op != opRefused })
		if added != c.added || lost != c.lost || len(refused) != c.refused {
			t.Errorf("%s: %d added, %d lost, %d refused", name, added, lost, len(refused))
		}
	}
	var same []*crew.Record
	for _, name := range []string{"a", "b"} {
		same = append(same, &crew.Record{Op: crew.OpGrant, Worker: name, Hold: name, Lock: fencedWorkload, Token: "1", Claim: &monotonic.Claim{To: 1, Until: 9}})
	}
	cells, said := judgeLock(fencedWorkload, same, 0, 1)
	if cells[1] != 2 || cells[2] != 1 || cells[6] != 1 {
		t.Errorf("two at once with one token: %v", cells)
	}
	if len(said) != 2 || !strings.HasPrefix(said[0], "b was in with token 1 at 1") {
		t.Errorf("%q", said)
	}
	if _, said := judgeLock(lockSetWorkload, nil, 0, 1); len(said) != 1 || said[0] != "no client got the lock" {
		t.Errorf("%q", said)
	}
	for workload, want := range map[string]string{lockSetWorkload: "[]", fencedWorkload: "[b and another hold had the same token 1 1 elements were lost]"} {
		var lossy []*crew.Record
		for i, step := range []string{"grant a", "grant b", "read a", "read b", "act b", "act a"} {
			r := &crew.Record{Call: monotonic.Instant(i), Return: monotonic.Instant(i), Lock: workload, Token: "1"}
			fmt.Sscan(step, &r.Op, &r.Hold)
			r.Worker = r.Hold
			lossy = append(lossy, r)
		}
		if cells, said := judgeLock(workload, lossy, 0, 9); cells[3] != 2 || cells[5] != 1 || fmt.Sprint(said) != want {
			t.Errorf("%s: %v, %q", workload, cells, said)
		}
	}
}
