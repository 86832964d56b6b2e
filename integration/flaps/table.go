package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// print prints the tables in Markdown, and whether Holdfast kept its promises.
func (r *report) print(w io.Writer) (kept bool) {
	versions := []string{"ZooKeeper " + r.zookeeper}
	for _, c := range r.contenders {
		if c.program.Version != "" {
			versions = append(versions, c.program.Version)
		}
	}
	fmt.Fprintf(w, "%s; session timeout %v; %d CPUs\n", strings.Join(versions, ", "), sessionTimeout, runtime.NumCPU())
	for _, f := range faults {
		var rows [][]string
		for _, one := range r.pairs {
			if one.fault == f {
				rows = append(rows, row(one.contender, one.round, one.err, one.cells))
			}
		}
		table(w, f.title, []string{
			"lock", "second in", "first warned", "first told", "both in", "first's library, as the second came in", "first's Unlock",
		}, rows)
	}
	var rows [][]string
	for _, one := range r.cuts {
		rows = append(rows, row(one.contender, one.round, one.err, one.cells))
	}
	table(w, cutsTitle, []string{
		"lock", "handoffs/s before", "handoffs/s after", "came in after", "queue", "longest pause", "Lock failed", "Unlock failed", "two in at once",
	}, rows)
	return r.verdict(w)
}

// verdict tells which promises Holdfast did not keep.
func (r *report) verdict(w io.Writer) (kept bool) {
	runs, broken := 0, 0
	judge := func(scenario string, c *contender, round int, err error, promises func() []string) {
		if !c.ours {
			return
		}
		runs++
		var failures []string
		if err != nil {
			failures = []string{fmt.Sprintf("could not be carried out: %v", err)}
		} else {
			failures = promises()
		}
		for _, f := range failures {
			broken++
			fmt.Fprintf(w, "\n%s, %s, round %d: %s\n", scenario, c.title, round, f)
		}
	}
	for _, one := range r.pairs {
		judge(one.fault.name, one.contender, one.round, one.err, one.broken)
	}
	for _, one := range r.cuts {
		judge(cutsName, one.contender, one.round, one.err, one.broken)
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

// row is a row of a table: of a run that was carried out, the cells.
func row(c *contender, round int, err error, cells func() []string) []string {
	title := c.title
	if round > 1 {
		title += fmt.Sprintf(", round %d", round)
	}
	if err != nil {
		return []string{title, "not measured: " + err.Error()}
	}
	return append([]string{title}, cells()...)
}

func (r *pairRun) cells() []string {
	since := func(t time.Time, otherwise string) string {
		if t.IsZero() {
			return otherwise
		}
		return seconds(t.Sub(r.struck))
	}
	in, overlap, asked := since(r.in, "never"), "no", "–"
	if d := r.overlap(); d > 0 {
		overlap = seconds(d)
	}
	switch {
	case r.in.After(r.unlocked):
		in += ", after Unlock"
	case !r.in.IsZero() && r.contender.asked == "":
		asked = "cannot be asked"
	case !r.in.IsZero():
		asked = fmt.Sprintf("`%s`: %s", r.contender.asked, r.asked)
	}
	return []string{in, since(r.warned.At, "–"), since(r.told.At, "–"), overlap, asked, r.unlock}
}

func (r *cutsRun) cells() []string {
	queue := "moves"
	if r.wedged() {
		queue = "**wedged**"
	}
	if r.newSessions > 0 {
		queue += fmt.Sprintf("; %d sessions did not survive", r.newSessions)
	}
	return []string{
		fmt.Sprintf("%.0f", r.before), fmt.Sprintf("%.0f", r.after), fmt.Sprintf("%d of %d", r.served, takers), queue, seconds(r.pause),
		fmt.Sprint(r.turns.failedLocks), fmt.Sprint(r.turns.failedUnlocks), fmt.Sprint(r.turns.doubles()),
	}
}

// table prints a table, if it has rows.
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

// seconds is a time as the tables have it.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
