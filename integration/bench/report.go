package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// describe returns a text about the machine and the measured versions.
func describe(b *bench, peers []*peer) string {
	clients := []string{zkserver.ClientVersion()}
	for _, p := range peers {
		version := p.program.Version
		if p.server != nil {
			version = p.server.version
		}
		if version != "" && !slices.Contains(clients, version) {
			clients = append(clients, version)
		}
	}
	cpu, load := told("/proc/cpuinfo", `(?m)^model name\s*: *(.*)$`, runtime.GOARCH), told("/proc/loadavg", `^(\S+)`, "unknown")
	head := fmt.Sprintf("%s. ZooKeeper %s, fsync on; %s; %s; %s, %d CPUs; load average at the start %s. Medians; in brackets the median ratio to %s, turn by turn.",
		time.Now().UTC().Format(time.DateOnly), b.zookeeper.version, strings.Join(clients, ", "), runtime.Version(), cpu, runtime.NumCPU(), load, zkLockName)
	if b.quick {
		head += " A quick run, to see that all works: its figures mean little."
	}
	return head
}

// told returns the first group of a pattern's first match in a file. If there is no match, it
// returns the text in otherwise.
func told(file, pattern, otherwise string) string {
	text, _ := os.ReadFile(file)
	if found := regexp.MustCompile(pattern).FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return otherwise
}

// Name of the document, and the lines between which update replaces the text.
const (
	document  = "BENCHMARKS.md"
	beginMark = "<!-- begin: written by make bench UPDATE=1 -->\n"
	endMark   = "<!-- end -->\n"
)

// ready returns an error if the results of a run could not be written to the directories. It
// creates missing ones.
func ready(out, update string) (err error) {
	for _, dir := range []string{out, update} {
		if dir != "" {
			err = errors.Join(err, os.MkdirAll(filepath.Join(dir, chartsDir), 0o755))
		}
	}
	if update != "" && err == nil {
		_, err = new(report).updated(update)
	}
	return err
}

// update updates the document, the results and the charts in a directory.
func (r *report) update(dir string) error {
	text, err := r.updated(dir)
	if err != nil {
		return err
	}
	return r.write(dir, document, text)
}

// updated returns the directory's document with the charts and tables of this report between the
// marks.
func (r *report) updated(dir string) (string, error) {
	name := filepath.Join(dir, document)
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	before, rest, begins := strings.Cut(string(text), beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	if !begins || !ends {
		return "", fmt.Errorf("%s: no lines %q and %q to write between", name, strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	var b strings.Builder
	b.WriteString(before + beginMark + "\n")
	for _, c := range r.charts() {
		fmt.Fprintf(&b, "![%s](%s/%s)\n\n", c.title, chartsDir, c.file)
	}
	r.printPage(&b)
	b.WriteString("\n" + endMark + after)
	return b.String(), nil
}

// print prints all tables in Markdown. It returns texts about the missed bars on counts.
func (r *report) print(w io.Writer) (missed []string) {
	fmt.Fprintln(w, r.Head)
	for _, one := range r.results {
		one.print(w)
	}
	rows, missed := r.bars()
	if len(rows) > 0 {
		printTable(w, "Bars", []string{"figure of Holdfast", "bar", "measured", ""}, rows)
	}
	return missed
}

const barMet = "met"

// bars returns the rows of the table of bars: figure, bar, measured value and verdict. missed are texts
// about the missed bars on counts.
func (r *report) bars() (rows [][]string, missed []string) {
	for _, one := range r.results {
		for _, b := range one.Bars {
			value, of, ok := r.value(one, b)
			if !ok {
				continue // a peer or an experiment was not measured
			}
			name := fmt.Sprintf("%s, %s: %s", one.Workload, one.Title, one.Figures[b.Figure].Title)
			format, limit := decimals.format, "≤ "
			if of == "" {
				format = one.Figures[b.Figure].Unit.format
			}
			if b.Least {
				limit = "≥ "
			}
			limit += format(b.Limit) + of
			verdict := barMet
			if !b.met(value) {
				verdict = "**missed**"
				if b.Counted {
					missed = append(missed, fmt.Sprintf("%s is %s, must be %s", name, format(value), limit))
				}
			}
			rows = append(rows, []string{name, limit, format(value), verdict})
		}
	}
	return rows, missed
}

// value returns Holdfast's value for a bar. For a ratio, of says to what; otherwise it is "". ok is
// false if a peer or an experiment of the comparison was not measured.
func (r *report) value(one *result, b bar) (value float64, of string, ok bool) {
	if one.index(holdfastName) < 0 {
		return 0, "", false
	}
	value = one.median(holdfastName, b.Figure)
	switch {
	case b.Against != "":
		if value, ok = one.ratio(holdfastName, b.Against, b.Figure); ok {
			of = " of " + one.Peers[one.index(b.Against)].Title
		}
		return value, of, ok
	case b.Beside != "":
		other := r.find(one.Workload, b.Beside)
		if other == nil || other.index(holdfastName) < 0 {
			return 0, "", false
		}
		return value / other.median(holdfastName, b.Figure), " of " + b.Beside, true
	}
	return value, "", true
}

// met reports whether v meets the bar. It rounds v to two decimals, as the tables do, unless the
// limit is between 0 and 0.01, as for short times.
func (b bar) met(v float64) bool {
	if b.Limit == 0 || b.Limit >= 0.01 {
		v = math.Round(v*100) / 100
	}
	if b.Least {
		return v >= b.Limit
	}
	return v <= b.Limit
}

func (r *result) print(w io.Writer) {
	turns := 0
	for _, of := range r.Rounds {
		turns = max(turns, len(of))
	}
	head := []string{fmt.Sprintf("turns of each: %d", turns)}
	for _, f := range r.Figures {
		head = append(head, f.Title)
	}
	var rows [][]string
	for _, p := range r.Peers {
		row := []string{p.Title}
		for i, f := range r.Figures {
			value := r.median(p.Name, i)
			if math.IsNaN(value) {
				row = append(row, "–") // not measured
				continue
			}
			cell := f.Unit.format(value)
			if ratio, ok := r.ratio(p.Name, zkLockName, i); ok && p.Name != zkLockName {
				cell += fmt.Sprintf(" (%.2f)", ratio)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	printTable(w, r.Workload+": "+r.Title, head, rows)
	for _, p := range r.Peers {
		if p.Note != "" {
			fmt.Fprintf(w, "\n%s %s: %s\n", mark, strings.TrimSuffix(p.Title, " "+mark), p.Note)
		}
	}
}

// printTable prints a table in Markdown.
func printTable(w io.Writer, title string, head []string, rows [][]string) {
	fmt.Fprintf(w, "\n### %s\n\n|%s|\n|%s\n", title, strings.Join(head, "|"), strings.Repeat("-|", len(head)))
	for _, row := range rows {
		fmt.Fprintf(w, "|%s|\n", strings.Join(row, "|"))
	}
}
