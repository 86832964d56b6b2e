package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// result has the results of a run, as a line of results.jsonl.
type result struct {
	Seed      uint64
	Duration  time.Duration
	ZooKeeper string // version
	Etcd      string
	Faults    map[string]int // number by kind; the same in all systems
	Rows      []row
	Audit     auditResult // of the log of Holdfast's servers

	stuck []string // clients of Holdfast that had to be killed at the end, or ended by themselves
}

// auditResult has the findings of package audit.
type auditResult struct {
	Txns       int64
	Judged     int
	Violations []string
}

// broken lists the promises of Holdfast that were broken.
func (r result) broken() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, v := range r.Rows {
		if v.System != holdfast {
			continue
		}
		if v.Overlaps > 0 {
			add("%s: %d holds overlapped", v.Workload, v.Overlaps)
		}
		if v.Fenced > 0 {
			add("%s: %d violations of fencing", v.Workload, v.Fenced)
		}
		if v.Holds == 0 {
			add("%s: no client got the lock", v.Workload)
		}
		all = append(all, v.unexpected...)
	}
	if r.Audit.Judged == 0 {
		add("the audit judged nothing")
	}
	return slices.Concat(all, r.stuck, r.Audit.Violations)
}

func readResults(path string) (all []result, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// table returns the results in Markdown.
func table(results []result) string {
	var b strings.Builder
	for _, r := range results {
		var faults []string
		for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
			faults = append(faults, fmt.Sprintf("%s %d×", kind, r.Faults[kind]))
		}
		fmt.Fprintf(&b, "`make jepsen DURATION=%s SEED=%d`, ZooKeeper %s, etcd %s. Faults: %s.\n\n", strings.ReplaceAll(strings.ReplaceAll(r.Duration.String(), "m0s", "m"), "h0m", "h"), r.Seed, r.ZooKeeper, r.Etcd, strings.Join(faults, ", "))
		b.WriteString("| workload | system | attempts | holds | overlaps of claims | acts | acts outside of the hold | elements added | lost | fenced violations | longest without a grant |\n")
		b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
		for _, w := range workloads {
			for _, system := range systems {
				r.row(&b, w, system)
			}
		}
		b.WriteString("\nResults of calls that were not a success, by class:\n\n| system | workload | errors |\n|---|---|---|\n")
		for _, v := range r.Rows {
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
			fmt.Fprintf(&b, "| %s | %s | %s |\n", v.System, v.Workload, strings.Join(errs, ", "))
		}
		fmt.Fprintf(&b, "\nThe audit of the log of Holdfast's servers judged %d writes of %d transactions: %d violations.\n\n", r.Audit.Judged, r.Audit.Txns, len(r.Audit.Violations))
	}
	return b.String()
}

// row writes the table's row of a workload and a system.
func (r result) row(b *strings.Builder, workload, system string) {
	i := slices.IndexFunc(r.Rows, func(v row) bool { return v.Workload == workload && v.System == system })
	if i < 0 {
		fmt.Fprintf(b, "| %s | %s | not offered | | | | | | | | |\n", workload, system)
		return
	}
	v := r.Rows[i]
	added, lost, fenced := "", "", ""
	if workload == lockSetWorkload || workload == fencedWorkload {
		added, lost = fmt.Sprint(v.Added), fmt.Sprint(v.Lost)
	}
	if workload == fencedWorkload {
		fenced = fmt.Sprint(v.Fenced)
	}
	fmt.Fprintf(b, "| %s | %s | %d | %d | %d | %d | %d | %s | %s | %s | %.1f s |\n", workload, system, v.Attempts, v.Holds, v.Overlaps, v.Acts, v.Outside, added, lost, fenced, v.Idle.Seconds())
}

// The lines of the page around the results.
const (
	pageBegin = "<!-- begin: written by bin/jepsen -update -->\n"
	pageEnd   = "<!-- end -->\n"
)

// publish writes the results to the folder's results.jsonl and README.md.
func publish(dir string, results []result) error {
	page := filepath.Join(dir, page)
	var lines bytes.Buffer
	for _, r := range results {
		if err := json.NewEncoder(&lines).Encode(r); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), pageBegin)
	_, after, end := strings.Cut(rest, pageEnd)
	if !ok || !end {
		return fmt.Errorf("%s: has no lines %q and %q", page, pageBegin, pageEnd)
	}
	if err := os.WriteFile(filepath.Join(dir, resultsFile), lines.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(page, []byte(before+pageBegin+"\n"+table(results)+pageEnd+after), 0o644)
}
