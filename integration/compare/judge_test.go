package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/lock"
)

// TestJudgeLock: a late write makes a store without a fence lose an update, and a fenced store refuses
// it. judgeLock counts the lost update, and a write that a broken fence accepted; holds that overlap,
// and tokens that are the same; and broken lists what Holdfast must not do.
func TestJudgeLock(t *testing.T) {
	for workload, s := range newStores() {
		sets := map[string][]int64{}
		for _, token := range []string{"1", "2"} {
			var set []int64
			if err := s.Read(token, &set); err != nil {
				t.Fatal(err)
			}
			sets[token] = set
		}
		if err := s.Write(Write{"2", sets["2"], 20}, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Write(Write{"1", sets["1"], 10}, nil); (err == errStale) != s.fenced {
			t.Errorf("%s: the late write: %v", workload, err)
		}
		v := judgeLock(holdfast, workload, nil, s, 0, 1)
		if want := map[bool]int{false: 1, true: 0}[s.fenced]; v.Lost != want || v.Fenced != 0 || v.Added != 1+want {
			t.Errorf("%s: %+v", workload, v)
		}
	}
	broken := &Store{fenced: true, set: []int64{10}, writes: []Write{{"2", nil, 20}, {"1", nil, 10}}}
	if v := judgeLock(holdfast, fencedWorkload, nil, broken, 0, 1); v.Lost != 1 || v.Fenced != 2 {
		t.Errorf("a fence that lets an old token pass: %+v", v)
	}
	var same []*crew.Record
	for _, name := range []string{"a", "b"} {
		same = append(same, &crew.Record{Op: crew.OpGrant, Worker: name, Hold: name, Lock: fencedWorkload, Token: "1", Claim: &monotonic.Claim{To: 1, Until: 9}})
	}
	v := judgeLock(holdfast, fencedWorkload, same, &Store{}, 0, 1)
	if v.Overlaps != 1 || v.Fenced != 1 || v.Holds != 2 || v.Attempts != 2 {
		t.Errorf("two at once with one token: %+v", v)
	}
	if said := (result{Rows: []row{v}, Audit: &auditResult{Judged: 1}}).broken(); len(said) != 2 {
		t.Errorf("%q", said)
	}
}

// TestBrokenLocks: broken lists missing holds, stuck clients, violations in the log, and an audit that
// judged nothing.
func TestBrokenLocks(t *testing.T) {
	if said := (result{Rows: []row{{System: holdfast}, {System: etcd, Overlaps: 1, Fenced: 1}}, failed: []string{"stuck"}, Audit: &auditResult{Violations: []string{"audit"}}}).broken(); len(said) != 4 {
		t.Errorf("%q", said)
	}
}

// TestClasses: classify returns an error's class. errors shows texts as "other".
func TestClasses(t *testing.T) {
	for want, err := range map[string]error{
		"": nil, crew.Expired: lock.ErrExpired, connError: &net.OpError{Op: "write", Err: io.ErrClosedPipe}, crew.GaveUp: fmt.Errorf("wait: %w", context.DeadlineExceeded),
		crew.Unsure: &lock.UnlockError{Err: context.DeadlineExceeded}, crew.Removed: lock.ErrRemoved,
	} {
		if got := classify(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	if got, want := (row{Errors: map[string]int{crew.OpTry + ": no, 1": 1, crew.OpTry + ": no, 2": 2, crew.OpTry + ": " + crew.GaveUp: 4}}).errors(), "try: gave up 4×, try: other 3×"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
