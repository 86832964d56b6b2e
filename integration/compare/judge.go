package main

import (
	"cmp"
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
	Added   int // elements that the set accepted
	Lost    int // accepted elements that are not in the set at the end
	Refused int // acts that the fenced set refused
	// Fenced counts the violations of fencing: tokens that are not unique, or not higher than those
	// of earlier holds; lost elements.
	Fenced int
	// Errors counts the results of calls that were not a success, by call and class.
	Errors map[string]int
	// Idle is the longest time in which no client got the lock.
	Idle time.Duration

	examples []string // texts of overlaps, and of violations of fencing
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

// judgeLock returns the findings in a system's records. Idle is measured from start to stop.
func judgeLock(system, workload string, all []*crew.Record, start, stop monotonic.Instant) row {
	v := row{System: system, Workload: workload, Errors: map[string]int{}}
	records := slices.DeleteFunc(slices.Clone(all), func(r *crew.Record) bool { return r.Lock != workload })
	if workload != lockWorkload {
		records, v.Added, v.Lost = keepSet(records, workload == fencedWorkload)
	}
	ops := map[string]int{}
	for _, r := range records {
		if ops[r.Op]++; r.Result != "" {
			v.Errors[r.Op+": "+r.Result]++
		}
	}
	v.Attempts, v.Holds, v.Acts, v.Refused = ops[crew.OpTry]+ops[crew.OpGrant], ops[crew.OpGrant], ops[crew.OpAct], ops[opRefused]
	v.Idle = judge.Gap(records, start, stop)
	holds := judge.Holds(records)[workload]
	double, _ := judge.Doubles(judge.ByBegin(holds))
	stale := map[*judge.Hold]bool{}
	for _, d := range double {
		stale[d.Before] = true
		v.examples = append(v.examples, d.String())
	}
	v.Overlaps, v.Outside = len(stale), len(judge.Outside(holds))
	if workload == fencedWorkload {
		wrong := judge.Tokens(holds)
		v.Fenced = v.Lost + len(wrong)
		v.examples = append(v.examples, wrong...)
	}
	return v
}

// opRefused is the operation of an act that the fenced set refused.
const opRefused = "refused"

// keepSet is the store of a set: the clients' reads and writes take effect in the order of their times.
// A write replaces the set by the one that its client read before, with one more element. If the set is
// fenced, it refuses reads and writes with a token that is lower than one that it has seen. keepSet
// returns the records, with the refused acts as such, and how many elements were added, and how many of
// them are not in the set at the end.
func keepSet(records []*crew.Record, fenced bool) (kept []*crew.Record, added, lost int) {
	highest, size := "", 0
	read := map[string]int{} // sizes of the sets that were read, by hold
	for _, r := range slices.SortedStableFunc(slices.Values(records), func(a, b *crew.Record) int { return cmp.Compare(a.Call, b.Call) }) {
		switch refused := fenced && r.Token < highest; {
		case r.Op != opRead && r.Op != crew.OpAct:
		case refused && r.Op == crew.OpAct:
			act := *r
			act.Op, r = opRefused, &act
		case refused:
		case r.Op == opRead:
			read[r.Hold], highest = size, max(highest, r.Token)
		default:
			added, highest = added+1, max(highest, r.Token)
			size = read[r.Hold] + 1
		}
		kept = append(kept, r)
	}
	return kept, added, added - size
}
