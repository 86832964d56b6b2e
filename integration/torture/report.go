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
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-io/holdfast/lock"
)

// report is what a run came to.
type report struct {
	figures []figure
	wrong   []string // what must not be
	void    string   // why what is wrong proves nothing; empty if it does
}

// figure is one line.
type figure struct{ name, value string }

func (r *report) add(name string, format string, args ...any) {
	r.figures = append(r.figures, figure{name, fmt.Sprintf(format, args...)})
}

// none adds a figure that has to be 0, and what makes it another.
func (r *report) none(name string, n int, details ...string) {
	r.add(name, "%d (must be 0)", n)
	if n == 0 {
		return
	}
	r.wrong = append(r.wrong, fmt.Sprintf("%s: %d", name, n))
	const most = 10
	for i, d := range details {
		if i == most {
			r.wrong = append(r.wrong, fmt.Sprintf("  and %d more", len(details)-most))
			break
		}
		r.wrong = append(r.wrong, "  "+d)
	}
}

// judge judges a run.
func (t *torture) judge() *report {
	r := new(report)
	records := t.control.history.records
	byLock := holds(records)
	diverged := t.diverged()
	t.tellWork(r, records, byLock)
	t.tellServers(r, diverged)
	t.tellPromises(r, records, byLock)
	r.linearizable(records, byLock)
	if len(r.wrong) > 0 {
		r.void = diverged
		var text bytes.Buffer
		r.print(&text)
		r.wrong = append(r.wrong, t.preserve(text.String())...)
	}
	return r
}

// tellWork adds what was done with locks.
func (t *torture) tellWork(r *report, records []*record, byLock map[string][]*hold) {
	c := t.control
	operations := 0
	for _, rec := range records {
		if rec.Op != "fault" {
			operations++
		}
	}
	r.add("operations", "%d on %d locks", operations, len(byLock))
	r.add("holds", "%d; %d attempts found the lock taken or gave up", c.grants, c.turnedAway)
	if c.grants == 0 {
		r.wrong = append(r.wrong, "no worker ever got a lock")
	}
	sum := t.stats()
	r.add("longest wait for a lock", "%v", c.longest.Round(time.Millisecond))
	r.add("holds that ended early", "%d, told as they must be", c.lost)
	r.add("renewals", "%d; %d expired entries purged, %d waiters queued again", sum.Renewals, sum.Purged, sum.Requeued)
}

// tellServers adds what happened to the servers.
func (t *torture) tellServers(r *report, diverged string) {
	r.add("servers", "ZooKeeper %v%s", t.version, map[bool]string{true: "; THEY DID NOT AGREE ON THEIR DATA"}[diverged != ""])
	r.add("leaders", "%d changes, %d displacements of the leader's clock seen by clients%s", t.elections, t.stats().Displacements,
		map[bool]string{true: fmt.Sprintf(", servers' clocks up to %v apart", 2*clockOff), false: ", servers' clocks the same: no libfaketime"}[t.clocks])
	for _, name := range slices.Sorted(maps.Keys(t.faults)) {
		r.add("fault: "+name, "%d", t.faults[name])
	}
}

// stats sums up what the clients have counted.
func (t *torture) stats() (sum lock.Stats) {
	for _, s := range t.control.stats {
		sum.Renewals += s.Renewals
		sum.Purged += s.Purged
		sum.Requeued += s.Requeued
		sum.Displacements += s.Displacements
	}
	return sum
}

// tellPromises adds what must not be, and how often it might have been.
func (t *torture) tellPromises(r *report, records []*record, byLock map[string][]*hold) {
	c := t.control
	r.add("late acts stopped by fencing", "%d", c.store.fenced)
	r.add("late acts unopposed", "%d", c.store.unopposed)
	r.add("late acts stopped by the deadline", "%d (of the counter, which is not fenced)", c.store.overdue)

	double, beside := doubleEntries(byLock)
	r.add("holds beside others", "%d, of read/write locks and semaphores", beside)
	r.none("double entries", len(double), double...)
	wrong, shown, none := wronglyShown(records, byLock)
	r.add("leaders asked for", "%d, of which %d showed no leader", shown, none)
	r.none("leaders shown wrongly", len(wrong), wrong...)
	r.none("valid holds refused by fencing", c.store.contradicted)
	r.none("lost updates", c.store.lostUpdates())
	r.none("live entries removed", len(c.removed), c.removed...)
	r.none("unexpected errors", len(c.unexpected), c.unexpected...)
	r.none("workers that died by themselves", len(t.died), t.died...)
	r.none("workers stuck at the end", len(t.stuck), t.stuck...)
	r.none("nodes left", len(t.left), t.left...)
}

// linearizable adds whether an order of all that was done explains what came of it.
func (r *report) linearizable(records []*record, byLock map[string][]*hold) {
	deadline := time.Now().Add(checkPatience)
	for _, kind := range slices.Sorted(maps.Keys(rooms)) {
		locks := map[string][]porcupine.Operation{}
		for name, hs := range byLock {
			if hs[0].kind == kind {
				locks[name] = lockHistory(hs)
			}
		}
		r.verdict("linearizable: each "+kind, check(lockModel, locks, deadline))
	}
	r.verdict("linearizable: registers", check(registerModel, registerHistory(records), deadline))
}

func (r *report) verdict(name string, v verdict) {
	word := "yes"
	switch {
	case len(v.illegal) > 0:
		word = fmt.Sprintf("NO: %q", v.illegal)
	case len(v.undecided) > 0:
		word = fmt.Sprintf("not decided in %v: %q", checkPatience, v.undecided)
	}
	r.add(name, "%s (%d histories, %d operations)", word, v.histories, v.operations)
	if !v.ok() {
		r.wrong = append(r.wrong, name+": "+word)
	}
}

func (r *report) print(w io.Writer) {
	for _, f := range r.figures {
		fmt.Fprintf(w, "%-44s %s\n", f.name, f.value)
	}
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

// preserve keeps a run that failed, and says where, and how to make it again.
func (t *torture) preserve(report string) []string {
	dir := filepath.Join(t.keep, fmt.Sprintf("torture-%d", t.seed))
	var records bytes.Buffer
	err := errors.Join(
		os.MkdirAll(dir, 0o755),
		t.control.history.write(&records),
		os.WriteFile(filepath.Join(dir, "history.jsonl"), records.Bytes(), 0o644),
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
