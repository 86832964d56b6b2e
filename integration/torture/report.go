package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/judge"
)

// report has the figures of a run.
type report struct {
	figures strings.Builder
	wrong   []string // violations
	void    string   // reason why the violations prove nothing; "": they count
}

// add appends a line to the figures: the name, and the formatted value.
func (r *report) add(name string, format string, args ...any) {
	fmt.Fprintf(&r.figures, "%-44s %s\n", name, fmt.Sprintf(format, args...))
}

// none adds a figure that must be 0: the number of details. If it is not 0, the first details
// become violations.
func (r *report) none(name string, details []string) {
	n := len(details)
	r.add(name, "%d (must be 0)", n)
	if n == 0 {
		return
	}
	r.wrong = append(r.wrong, fmt.Sprintf("%s: %d", name, n))
	const most = 10
	for _, d := range details[:min(n, most)] {
		r.wrong = append(r.wrong, "  "+d)
	}
	if n > most {
		r.wrong = append(r.wrong, fmt.Sprintf("  and %d more", n-most))
	}
}

// judge returns the report of the run. If there are violations, it also saves the run.
func (t *torture) judge() *report {
	r := new(report)
	records := t.team.History.All()
	byLock := judge.Holds(records)
	diverged := t.diverged()
	grants := t.team.History.Count(crew.OpGrant)
	r.add("holds", "%d on %d locks; %d ended early, told as they must be", grants, len(byLock), t.team.History.Count(crew.OpLost))
	if grants == 0 {
		r.wrong = append(r.wrong, "no worker ever got a lock")
	}
	t.tellServers(r, diverged)
	t.tellPromises(r, records, byLock)
	if len(r.wrong) > 0 {
		r.void = diverged
		var text bytes.Buffer
		r.print(&text)
		r.wrong = append(r.wrong, t.preserve(text.String())...)
	}
	return r
}

// tellServers adds the servers' version, the changes of leaders, and the faults.
func (t *torture) tellServers(r *report, diverged string) {
	r.add("servers", "%s%s", t.servers.Version(), map[bool]string{true: "; THEY DID NOT AGREE ON THEIR DATA"}[diverged != ""])
	r.add("leaders", "%d changes%s", t.servers.Changes,
		map[bool]string{true: fmt.Sprintf(", servers' clocks up to %v apart", 2*clockOff), false: ", servers' clocks the same: no libfaketime"}[t.servers.Clocks != nil])
	faults := map[string]int{} // the report also lists planned faults that never happened
	for _, series := range t.series {
		for _, f := range series.Faults {
			faults[f.Name] = 0
		}
	}
	for _, rec := range t.team.History.All() {
		if rec.Op == crew.OpFault {
			faults[rec.Result]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		r.add("fault: "+name, "%d", faults[name])
	}
}

// tellPromises adds the violations of each promise, and figures that say how often the promise was
// tested.
func (t *torture) tellPromises(r *report, records []*crew.Record, byLock map[string][]*judge.Hold) {
	double, beside := judge.DoubleEntries(byLock)
	r.add("holds beside others", "%d, of read/write locks and semaphores", beside)
	r.none("double entries", double)
	wrong, shown, none := judge.LeadersShown(records, byLock)
	r.add("leaders asked for", "%d, of which %d showed no leader", shown, none)
	r.none("leaders shown wrongly", wrong)
	var refused []string
	deadline := time.Now().Add(checkPatience)
	for _, name := range slices.Sorted(maps.Keys(byLock)) {
		switch judge.Linearizable(byLock[name], deadline) {
		case porcupine.Illegal:
			refused = append(refused, name)
		case porcupine.Unknown:
			refused = append(refused, fmt.Sprintf("%s: not decided in %v", name, checkPatience))
		}
	}
	r.none("locks whose histories are not linearizable", refused)
	removed, unexpected := surprises(records)
	r.none("live entries removed", removed)
	r.none("unexpected errors", unexpected)
	r.none("workers that died by themselves", t.team.Died())
	r.none("workers stuck at the end", t.stuck)
	r.none("nodes left", t.left)
	t.tellAudit(r)
}

// explained has the results that faults explain, by operation.
var explained = map[string][]string{
	crew.OpTry:    {crew.Taken, crew.GaveUp},
	judge.OpShown: {crew.GaveUp},
	crew.OpLeft:   {crew.Expired, crew.Unsure, crew.NotHeld},
	crew.OpLost:   {crew.Expired, crew.Unsure, crew.NotHeld},
}

// surprises returns texts about the holds whose entries were deleted or overwritten, and about
// other results that faults do not explain. No client may delete or overwrite another client's
// entry while its lease lasts.
func surprises(records []*crew.Record) (removed, unexpected []string) {
	for _, r := range records {
		text := fmt.Sprintf("%s, lock %s, token %s, %s: %s", r.Worker, r.Lock, r.Token, r.Op, r.Result)
		switch {
		case r.Result == "" || r.Op == crew.OpFault || slices.Contains(explained[r.Op], r.Result):
		case (r.Op == crew.OpLeft || r.Op == crew.OpLost) && (r.Result == crew.Removed || r.Result == crew.Written):
			removed = append(removed, text)
		default:
			unexpected = append(unexpected, text)
		}
	}
	return removed, unexpected
}

// tellAudit adds the findings in the servers' transaction logs.
func (t *torture) tellAudit(r *report) {
	f := t.findings
	r.add("writes audited", "%d verdicts on %d transactions; %d writes could not be judged", f.Total(), f.Txns, f.NotJudged())
	if f.Total() == 0 {
		r.wrong = append(r.wrong, "the audit judged nothing")
	}
	r.none("writes that the protocol does not permit", crew.Violations(f))
}

func (r *report) print(w io.Writer) {
	fmt.Fprint(w, r.figures.String())
	switch {
	case len(r.wrong) == 0:
		return
	case r.void != "":
		fmt.Fprintf(w, "\nVOID, for the servers did not agree on their data, which is a fault of ZooKeeper's:\n%s\nWhat clients saw of them:\n", r.void)
	default:
		fmt.Fprintln(w, "\nFAILED")
	}
	for _, line := range r.wrong {
		fmt.Fprintln(w, line)
	}
}

// preserve saves a failed run. It returns lines that say where, and how to repeat the run.
func (t *torture) preserve(report string) []string {
	dir := filepath.Join(keep, fmt.Sprintf("torture-%d", t.seed))
	err := errors.Join(
		t.unkept,
		t.team.History.Keep(dir),
		os.WriteFile(filepath.Join(dir, "report.txt"), []byte(report), 0o644),
	)
	for name, log := range t.logs {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), log, 0o644))
	}
	kept := "history and logs are kept in " + dir
	if err != nil {
		kept = "the run could not be kept: " + err.Error()
	}
	return []string{kept, fmt.Sprintf("the same faults again: make torture DURATION=%v SEED=%d", t.duration, t.seed)}
}
