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

const (
	// opRead is a record of a read of the set, which the act that follows it writes back with one more
	// element.
	opRead = "read"
	// opRefused is the operation of an act that the fenced set refused.
	opRefused = "refused"
)

// row has the findings on one workload of a system.
type row struct {
	system, workload string
	ops              map[string]int // records by operation
	// overlaps are the holds that the library still claimed after it had given the lock to another
	// client.
	overlaps int
	// outside counts the acts of clients after a later client had got the lock, which a lease alone
	// cannot prevent.
	outside int
	added   int // elements that the set accepted
	lost    int // accepted elements that are not in the set at the end
	// fenced counts the violations of fencing: tokens that are not unique, or not higher than those
	// of earlier holds; lost elements.
	fenced   int
	failed   map[string]int // results of calls that were not a success, by call and class
	idle     time.Duration  // the longest time in which no client got the lock
	examples []string       // texts of overlaps, and of violations of fencing
}

// judgeLock returns the findings in a system's records. The idle time is measured from start to stop.
func judgeLock(system, workload string, all []*crew.Record, start, stop monotonic.Instant) row {
	v := row{system: system, workload: workload, ops: map[string]int{}, failed: map[string]int{}}
	records := slices.DeleteFunc(slices.Clone(all), func(r *crew.Record) bool { return r.Lock != workload })
	if workload != lockWorkload {
		records, v.added, v.lost = keepSet(records, workload == fencedWorkload)
	}
	for _, r := range records {
		v.ops[r.Op]++
		switch {
		case r.Result == "":
		case slices.Contains(classes, r.Result):
			v.failed[r.Op+": "+r.Result]++
		default:
			v.failed[r.Op+": other"]++
		}
	}
	v.idle = judge.Gap(records, start, stop)
	holds := judge.Holds(records)[workload]
	double, _ := judge.Doubles(judge.ByBegin(holds))
	stale := map[*judge.Hold]bool{}
	for _, d := range double {
		stale[d.Before] = true
		v.examples = append(v.examples, d.String())
	}
	v.overlaps, v.outside = len(stale), len(judge.Outside(holds))
	if workload == fencedWorkload {
		wrong := judge.Tokens(holds)
		v.fenced = v.lost + len(wrong)
		v.examples = append(v.examples, wrong...)
	}
	return v
}

func (v row) cells() []any {
	holds := v.ops[crew.OpGrant]
	cells := []any{v.workload, v.system, v.ops[crew.OpTry] + holds, holds, v.overlaps, v.ops[crew.OpAct], v.outside, "", "", "", fmt.Sprintf("%.1f s", v.idle.Seconds())}
	if v.workload != lockWorkload {
		cells[7], cells[8] = v.added, v.lost
	}
	if v.workload == fencedWorkload {
		cells[9] = v.fenced
	}
	return cells
}

// errors tells the results of calls that were not a success, by call and class.
func (v row) errors() string {
	var errs []string
	for _, key := range slices.Sorted(maps.Keys(v.failed)) {
		errs = append(errs, fmt.Sprintf("%s %d×", key, v.failed[key]))
	}
	if n := v.ops[opRefused]; n > 0 {
		errs = append(errs, fmt.Sprintf("refused by the fenced store %d×", n))
	}
	return strings.Join(errs, ", ")
}

func (v row) broken() (b breaches) {
	b.add(v.overlaps > 0 || v.fenced > 0, "%s, %s: %d holds overlapped, and %d violations of fencing", v.system, v.workload, v.overlaps, v.fenced)
	b = append(b, v.examples[:min(5, len(v.examples))]...)
	b.add(v.ops[crew.OpGrant] == 0, "%s, %s: no client got the lock", v.system, v.workload)
	return b
}

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
