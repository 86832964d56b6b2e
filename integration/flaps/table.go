package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// print prints the tables in Markdown, and reports whether Holdfast kept its promises.
func (r *report) print(w io.Writer) (kept bool) {
	versions := []string{"ZooKeeper " + r.zookeeper}
	for _, c := range r.contenders {
		if c.program.Version != "" {
			versions = append(versions, c.program.Version)
		}
	}
	fmt.Fprintf(w, "%s; session timeout %v; %d CPUs\n", strings.Join(versions, ", "), sessionTimeout, runtime.NumCPU())
	for _, s := range scenarios {
		var rows [][]string
		for _, one := range r.runs {
			if one.scenario == s {
				rows = append(rows, one.row())
			}
		}
		table(w, s.title, s.head, rows)
	}
	return r.verdict(w)
}

// verdict prints the promises that Holdfast broke, and reports whether it took part and broke none.
func (r *report) verdict(w io.Writer) (kept bool) {
	runs, broken := 0, 0
	for _, one := range r.runs {
		if !one.contender.ours {
			continue
		}
		runs++
		var failures []string
		if one.err != nil {
			failures = []string{fmt.Sprintf("could not be carried out: %v", one.err)}
		} else {
			failures = one.broken()
		}
		for _, f := range failures {
			broken++
			fmt.Fprintf(w, "\n%s, %s, round %d: %s\n", one.scenario.name, one.contender.title, one.round, f)
		}
	}
	switch {
	case runs == 0:
		fmt.Fprintln(w, "\nHoldfast took no part: its promises were not put to the test.")
	case broken == 0:
		fmt.Fprintf(w, "\nHoldfast kept its promises in all its runs: %d.\n", runs)
	default:
		fmt.Fprintf(w, "\nHoldfast did NOT keep its promises: see the %d lines above.\n", broken)
	}
	return runs > 0 && broken == 0
}

// row returns the cells of the run's row: the lock's title and the results, or the reason why there
// are none.
func (r *run) row() []string {
	title := r.contender.title
	if r.round > 1 {
		title += fmt.Sprintf(", round %d", r.round)
	}
	if r.err != nil {
		return []string{title, "not measured: " + r.err.Error()}
	}
	return append([]string{title}, r.cells()...)
}

// table prints a table in Markdown, if it has rows.
func table(w io.Writer, title string, head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### %s\n\n", title)
	line := func(cells []string) {
		for _, cell := range cells {
			fmt.Fprintf(w, "| %s ", strings.ReplaceAll(strings.Join(strings.Fields(cell), " "), "|", `\|`))
		}
		fmt.Fprintln(w, strings.Repeat("| ", len(head)-len(cells))+"|")
	}
	line(head)
	fmt.Fprintln(w, strings.Repeat("|---", len(head))+"|")
	for _, cells := range rows {
		line(cells)
	}
}

// seconds formats a duration for the tables.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
