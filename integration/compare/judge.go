package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/judge"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

// row has the findings on one workload of a system.
type row struct {
	System   string
	Workload string
	Attempts int // to take the lock
	Holds    int
	Acts     int
	// Overlaps counts the holds that the library still claimed after it had given the lock to
	// another client.
	Overlaps int
	// Outside counts the acts of clients after a later client had got the lock, which a lease alone
	// cannot prevent.
	Outside int
	Added   int // elements that the store accepted
	Lost    int // accepted elements that the store does not have at the end
	Refused int // acts that the fenced store refused
	// Fenced counts the violations of fencing: tokens that are not unique, or not higher than those
	// of earlier holds; writes accepted in another order than their tokens; lost elements.
	Fenced int
	// Errors counts the results of calls that were not a success, by call and class.
	Errors map[string]int
	// Idle is the longest time in which no client got the lock.
	Idle time.Duration

	examples []string // texts of violations
}

// errors tells the results of calls that were not a success, by call and class.
func (v row) errors() string {
	known := map[string]int{}
	for key, n := range v.Errors {
		op, class, _ := strings.Cut(key, ": ")
		if !slices.Contains(classes, class) {
			class = "other"
		}
		known[op+": "+class] += n
	}
	var errs []string
	for _, key := range slices.Sorted(maps.Keys(known)) {
		errs = append(errs, fmt.Sprintf("%s %d×", key, known[key]))
	}
	if v.Refused > 0 {
		errs = append(errs, fmt.Sprintf("refused by the fenced store %d×", v.Refused))
	}
	return strings.Join(errs, ", ")
}

// judgeLock returns the findings in a system's records. s is the workload's store, or nil. Idle is
// measured from start to stop.
func judgeLock(system, workload string, all []*crew.Record, s *Store, start, stop monotonic.Instant) row {
	v := row{System: system, Workload: workload, Errors: map[string]int{}}
	var records []*crew.Record
	ops := map[string]int{}
	for _, r := range all {
		if r.Lock != workload {
			continue
		}
		records = append(records, r)
		if ops[r.Op]++; r.Result != "" {
			v.Errors[r.Op+": "+r.Result]++
		}
	}
	v.Attempts, v.Holds, v.Acts, v.Refused = ops[crew.OpTry]+ops[crew.OpGrant], ops[crew.OpGrant], ops[crew.OpAct], ops[opRefuse]
	v.Idle = judge.Gap(records, start, stop)
	holds := judge.Holds(records)[workload]
	double, _ := judge.Doubles(judge.ByBegin(holds))
	stale := map[*judge.Hold]bool{}
	for _, d := range double {
		stale[d.Before] = true
		v.examples = append(v.examples, d.String())
	}
	outside := judge.Outside(holds)
	v.Overlaps, v.Outside = len(stale), len(outside)
	v.examples = append(v.examples, outside...)
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		v.Added = len(s.writes)
		for _, w := range s.writes {
			if !slices.Contains(s.set, w.Added) {
				v.Lost++
			}
		}
	}
	if workload == fencedWorkload {
		wrong := judge.Tokens(holds)
		for i := 1; i < len(s.writes); i++ {
			if s.writes[i].Token < s.writes[i-1].Token {
				wrong = append(wrong, fmt.Sprintf("a write with token %s was accepted after one with %s", s.writes[i].Token, s.writes[i-1].Token))
			}
		}
		v.Fenced = v.Lost + len(wrong) // it does not rely on the store's refusals
		v.examples = append(v.examples, wrong...)
	}
	return v
}
