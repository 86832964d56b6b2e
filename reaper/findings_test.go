package reaper

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func denialAt(i int) Denial { return Denial{Path: fmt.Sprintf("/locks/%05d", i), What: "read"} }

// TestDenialsKeepTheFirst: the list keeps the first maxTold nodes, sorted, although they are added in
// random order. The report has the first maxNamed of them.
func TestDenialsKeepTheFirst(t *testing.T) {
	var d denials
	d.add(Denial{Path: "/locks/z", What: "delete"})
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(3 * maxTold) {
		d.add(denialAt(i))
		d.add(denialAt(i)) // a repeated node is not added
	}
	if len(d.list) != maxTold || !d.more || d.list[0].What != "delete" || d.list[1] != denialAt(0) || d.list[maxTold-1] != denialAt(maxTold-2) {
		t.Errorf("%d are kept, from %v to %v", len(d.list), d.list[0], d.list[len(d.list)-1])
	}
	if first := d.first(); len(first) != maxNamed || !slices.IsSortedFunc(first, Denial.order) {
		t.Errorf("the report has %d", len(first))
	}
	if !d.beyond(denialAt(maxTold)) || d.beyond(denialAt(5)) {
		t.Error("what comes after the last that is kept may be denied, and what comes before is kept")
	}
}

func TestEachDenialIsLoggedOnce(t *testing.T) {
	var told told
	sweep := func(schedule string, complete bool, paths ...string) string {
		var d denials
		for _, p := range paths {
			d.add(Denial{Path: p, What: "list"})
		}
		var says []string
		appeared, gone := told.update(schedule, &d, complete)
		for _, n := range appeared {
			says = append(says, "+"+n.Path)
		}
		for _, n := range gone {
			says = append(says, "-"+n.Path)
		}
		return fmt.Sprint(says)
	}
	for i, tt := range []struct{ got, want string }{
		{sweep("x", true, "b", "a"), "[+a +b]"},
		{sweep("x", true, "b", "a"), "[]"},
		{sweep("y", true, "b"), "[]"}, // another schedule's sweep finds b, too
		{sweep("x", true, "c"), "[+c -a]"},
		{sweep("x", false), "[]"}, // an incomplete sweep ends no problem
		{sweep("y", true), "[-b]"},
		{sweep("x", true), "[-c]"},
		{sweep("x", true, "a"), "[+a]"},
	} {
		if tt.got != tt.want {
			t.Errorf("sweep %d tells %s, want %s", i, tt.got, tt.want)
		}
	}
	told.keep([]string{"y"})
	if len(told.seen["x"]) != 0 {
		t.Errorf("what a schedule saw that is no more is remembered: %v", told.seen)
	}
}

// TestRecordOfDenialsIsBounded: if different nodes are denied to each sweep, the record keeps only the
// nodes of the last sweep, at most maxTold.
func TestRecordOfDenialsIsBounded(t *testing.T) {
	var told told
	for i := range 10 {
		var d denials
		for j := range 2 * maxTold {
			d.add(denialAt(90000 - i*3*maxTold - j))
		}
		told.update("x", &d, true)
	}
	if n := len(told.seen["x"]); n != maxTold {
		t.Errorf("%d are remembered, want %d", n, maxTold)
	}
}
