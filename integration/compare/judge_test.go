package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// sec is a moment, in seconds.
func sec(s float64) instant { return instant(s * float64(time.Second)) }

// story makes the records of one hold. The hold was granted at from, has claims and acts
// afterwards, and was unlocked at to. If to is 0, the hold was never unlocked. results are added at
// the end.
type story struct {
	name    string
	token   string
	from    float64
	claims  []claim
	acts    []float64
	to      float64
	results []record
}

// momentAt returns a claim without an end. leaseAt returns a claim with an end.
func momentAt(s float64) claim       { return claim{From: sec(s), To: sec(s), Until: sec(s)} }
func leaseAt(s, until float64) claim { return claim{From: sec(s), To: sec(s), Until: sec(until)} }
func deed(name string, s float64) record {
	return record{Op: opAct, Hold: name, Call: sec(s), Return: sec(s)}
}

func (s story) records() []record {
	rs := []record{{Op: opGrant, Hold: s.name, Token: s.token, Call: sec(s.from - 0.5), Return: sec(s.from)}}
	for _, c := range s.claims {
		rs = append(rs, record{Op: opClaim, Hold: s.name, Call: c.From, Return: c.To, Claim: &c})
	}
	for _, a := range s.acts {
		rs = append(rs, deed(s.name, a))
	}
	if s.to != 0 {
		rs = append(rs, record{Op: opLeave, Hold: s.name, Call: sec(s.to), Return: sec(s.to)})
	}
	return append(rs, s.results...)
}

// TestJudge: judge counts each violation, and nothing else. broken lists overlaps and violations of
// fencing.
func TestJudge(t *testing.T) {
	paused := story{name: "a", token: "1", from: 1, claims: []claim{momentAt(1), momentAt(9)}, acts: []float64{9.5}}
	for name, c := range map[string]struct {
		workload string
		stories  []story
		want     row // only Overlaps, Outside and Fenced count
	}{
		"nothing":         {lockWorkload, nil, row{}},
		"one after other": {lockWorkload, []story{{name: "a", from: 1, claims: []claim{leaseAt(1, 5)}, acts: []float64{2}, to: 3}, {name: "b", from: 3.1, claims: []claim{leaseAt(3.1, 7)}, acts: []float64{4}}}, row{}},
		"leases overlap":  {lockWorkload, []story{{name: "a", from: 1, claims: []claim{leaseAt(1, 5)}}, {name: "b", from: 4.9, claims: []claim{leaseAt(4.9, 9)}}}, row{Overlaps: 1}},
		"a lease that ended, and a late act": {lockWorkload, []story{{name: "a", from: 1, claims: []claim{leaseAt(1, 5)}, acts: []float64{6}},
			{name: "b", from: 5.5, claims: []claim{leaseAt(5.5, 9)}, acts: []float64{6.5}}}, row{Outside: 1}},
		"a late act, after the next client left": {lockWorkload, []story{{name: "a", from: 1, claims: []claim{leaseAt(1, 5)}, acts: []float64{8}},
			{name: "b", from: 5.5, claims: []claim{leaseAt(5.5, 9)}, to: 6}}, row{Outside: 1}},
		"a late act while no client is in": {lockWorkload, []story{{name: "a", from: 1, claims: []claim{leaseAt(1, 5)}, acts: []float64{6}}}, row{}},
		"paused, and still told it holds": {lockWorkload, []story{paused,
			{name: "b", from: 5, claims: []claim{momentAt(5), momentAt(6)}, acts: []float64{5.5}, to: 6},
			{name: "c", from: 7, claims: []claim{momentAt(7), momentAt(10)}, acts: []float64{8}}}, row{Overlaps: 1, Outside: 1}},
		"a claim that came after its end": {lockWorkload, []story{{name: "a", from: 1, claims: []claim{{From: sec(1), To: sec(8), Until: sec(5)}}},
			{name: "b", from: 5.5, claims: []claim{leaseAt(5.5, 9)}}}, row{}},
		"the same token twice":                   {fencedWorkload, []story{{name: "a", token: "1", from: 1}, {name: "b", token: "1", from: 1.2}}, row{Fenced: 1}},
		"a lower token later":                    {fencedWorkload, []story{{name: "a", token: "2", from: 1}, {name: "b", token: "1", from: 5}}, row{Fenced: 1}},
		"a lower token, which waited for longer": {fencedWorkload, []story{{name: "a", token: "2", from: 1}, {name: "b", token: "1", from: 1.2}}, row{}},
	} {
		var all []record
		for _, s := range c.stories {
			all = append(all, s.records()...)
		}
		got := judge(holdfast, c.workload, all, &store{}, 0, sec(10))
		if got.Overlaps != c.want.Overlaps || got.Outside != c.want.Outside || got.Fenced != c.want.Fenced || got.Lost != 0 {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		broken := c.want.Overlaps+c.want.Fenced > 0
		if said := (result{Rows: []row{{System: holdfast, Holds: 1}, *got}, Audit: &auditResult{Judged: 1}}).broken(); len(c.stories) > 0 && broken != (len(said) > 0) {
			t.Errorf("%s: said %q", name, said)
		}
	}
}

// TestStores: a late write makes a store without a fence lose an update, and a fenced store refuses
// the late write. judge counts the lost update, and a write that a broken fence accepted.
func TestStores(t *testing.T) {
	for _, workload := range []string{lockSetWorkload, fencedWorkload} {
		s := newStores().byWorkload[workload]
		read := func(token string) []int64 {
			set, err := s.read(token)
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
		first := read("1")
		second := read("2")
		for token, set := range map[string][]int64{"2": second} {
			if err := s.write(token, set, 20); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.write("1", first, 10); (err == errStale) != s.fenced {
			t.Errorf("%s: the late write: %v", workload, err)
		}
		v := judge(holdfast, workload, nil, s, 0, 1)
		if want := map[bool]int{false: 1, true: 0}[s.fenced]; v.Lost != want || v.Fenced != 0 || v.Added != 1+want {
			t.Errorf("%s: %+v", workload, v)
		}
	}
	broken := &store{fenced: true, set: []int64{10}, writes: []write{{"2", 20}, {"1", 10}}}
	if v := judge(holdfast, fencedWorkload, nil, broken, 0, 1); v.Lost != 1 || v.Fenced != 2 {
		t.Errorf("a fence that lets an old token pass: %+v", v)
	}
}

// TestBrokenLocks: broken lists missing holds, stuck clients, violations in the log, and an audit that
// judged nothing.
func TestBrokenLocks(t *testing.T) {
	if said := (result{Rows: []row{{System: holdfast}, {System: etcd, Overlaps: 1, Fenced: 1}}, faults: []string{"stuck"}, Audit: &auditResult{Violations: []string{"audit"}}}).broken(); len(said) != 4 {
		t.Errorf("%q", said)
	}
}

// TestClasses: classify returns an error's class, or its text if the entry was removed. errors shows
// texts as "other".
func TestClasses(t *testing.T) {
	for want, err := range map[string]error{
		"": nil, expired: lock.ErrExpired, connError: &net.OpError{Op: "write", Err: io.ErrClosedPipe}, gaveUp: fmt.Errorf("wait: %w", context.DeadlineExceeded),
		unsure: &lock.UnlockError{Err: context.DeadlineExceeded}, lock.ErrRemoved.Error(): lock.ErrRemoved,
	} {
		if got := classify(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	if got, want := (row{Errors: map[string]int{opTry + ": no, 1": 1, opTry + ": no, 2": 2, opTry + ": " + gaveUp: 4}}).errors(), "try: gave up 4×, try: other 3×"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLongest(t *testing.T) {
	for want, moments := range map[float64][]instant{10: nil, 6: {sec(4), sec(2)}, 5: {sec(-1), sec(5), sec(12)}} {
		if got := longest(moments, 0, sec(10)); got != time.Duration(sec(want)) {
			t.Errorf("%v: %v, want %v s", moments, got, want)
		}
	}
}
