package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// report is what a run brought.
type report struct {
	head    string
	results []*result
}

// result is what an experiment brought.
type result struct {
	*experiment
	peers  []*peer
	rounds [][][]float64 // by peer, round and figure
}

// describe notes what the figures were measured on and with.
func (r *report) describe(b *bench, peers []*peer) {
	client := "go-zookeeper"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/go-zookeeper/zk" {
				client += " " + m.Version
			}
		}
	}
	for _, version := range versions(peers) {
		client += ", " + version
	}
	r.head = fmt.Sprintf("%s. ZooKeeper %s, fsync on; %s; %s; %s, %d CPUs; load average at the start %s. Medians; in brackets the median ratio to %s, turn by turn.",
		time.Now().UTC().Format(time.DateOnly), b.zookeeper.version, client, runtime.Version(), cpu(), runtime.NumCPU(), load(), zkLockName)
	if b.quick {
		r.head += " A quick run, to see that all works: its figures mean little."
	}
}

// publish prints the tables, and writes results, tables and charts into the
// directories that are named. It returns which bars were missed of what is counted.
func (r *report) publish(w io.Writer, out, update string) (missed []string, err error) {
	var tables strings.Builder
	missed = r.print(&tables)
	_, err = io.WriteString(w, tables.String())
	if err == nil && out != "" {
		err = r.write(out, "bench.md", tables.String())
	}
	if err == nil && update != "" {
		err = r.update(update)
	}
	return missed, err
}

// document is what update brings up to date, between these lines.
const (
	document  = "BENCHMARKS.md"
	beginMark = "<!-- begin: written by make bench UPDATE=1 -->\n"
	endMark   = "<!-- end -->\n"
)

// ready returns an error if what a run brings could not be written afterwards.
func ready(out, update string) error {
	for _, dir := range []string{out, update} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, chartsDir), 0o755); err != nil {
			return err
		}
	}
	if update == "" {
		return nil
	}
	_, err := new(report).updated(update)
	return err
}

// update brings what is published in a directory up to date.
func (r *report) update(dir string) error {
	text, err := r.updated(dir)
	if err != nil {
		return err
	}
	return r.write(dir, document, text)
}

// updated returns the document of a directory with this report in it.
func (r *report) updated(dir string) (string, error) {
	name := filepath.Join(dir, document)
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	updated, err := r.insert(string(text))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return updated, nil
}

// insert puts charts and tables into a text, in the place of those that are there.
func (r *report) insert(text string) (string, error) {
	before, rest, begins := strings.Cut(text, beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	if !begins || !ends {
		return "", fmt.Errorf("no lines %q and %q to write between", strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	var b strings.Builder
	b.WriteString(before + beginMark + "\n")
	for _, c := range r.charts() {
		fmt.Fprintf(&b, "![%s](%s/%s)\n\n", c.title, chartsDir, c.file)
	}
	r.print(&b)
	b.WriteString("\n" + endMark + after)
	return b.String(), nil
}

// cpu names the machine's processor, where the system tells.
func cpu() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// load is how many wanted to run in the last minute, where the system tells.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}

// print prints the tables in Markdown, and returns which bars of what is counted
// were missed.
func (r *report) print(w io.Writer) (missed []string) {
	fmt.Fprintln(w, r.head)
	for _, one := range r.results {
		one.print(w)
	}
	var rows [][]string
	for _, one := range r.results {
		for _, b := range one.bars {
			value, ok := r.value(one, b)
			if !ok {
				continue // without that peer, or that experiment
			}
			name := fmt.Sprintf("%s, %s: %s", one.workload, one.title, one.figures[b.figure].title)
			limit, format, sign := "", one.figures[b.figure].format, "≤"
			if b.least {
				sign = "≥"
			}
			switch {
			case b.against != "":
				format, limit = decimals.format, " of "+one.titleOf(b.against)
			case b.beside != "":
				format, limit = decimals.format, " of "+b.beside
			}
			verdict := "met"
			if !b.met(value) {
				verdict = "**missed**"
				if b.counted {
					missed = append(missed, fmt.Sprintf("%s is %s, must be %s %s%s", name, format(value), sign, format(b.limit), limit))
				}
			}
			rows = append(rows, []string{name, sign + " " + format(b.limit) + limit, format(value), verdict})
		}
	}
	if len(rows) > 0 {
		table(w, "Bars", []string{"figure of Holdfast", "bar", "measured", ""}, rows)
	}
	return missed
}

// find returns the result of an experiment, nil if there is none.
func (r *report) find(workload, title string) *result {
	i := slices.IndexFunc(r.results, func(one *result) bool { return one.workload == workload && one.title == title })
	if i < 0 {
		return nil
	}
	return r.results[i]
}

// value is what Holdfast has of what a bar is set on, if all took part that are in it.
func (r *report) value(one *result, b bar) (float64, bool) {
	if one.of(holdfastName) == nil {
		return 0, false
	}
	switch {
	case b.against != "":
		return one.ratio(holdfastName, b.against, b.figure)
	case b.beside != "":
		other := r.find(one.workload, b.beside)
		if other == nil || other.of(holdfastName) == nil {
			return 0, false
		}
		return one.median(holdfastName, b.figure) / other.median(holdfastName, b.figure), true
	}
	return one.median(holdfastName, b.figure), true
}

func (r *result) print(w io.Writer) {
	turns := 0
	for _, of := range r.rounds {
		turns = max(turns, len(of))
	}
	head := []string{fmt.Sprintf("turns of each: %d", turns)}
	for _, f := range r.figures {
		head = append(head, f.title)
	}
	var rows [][]string
	for _, p := range r.peers {
		row := []string{p.title}
		for i, f := range r.figures {
			value := r.median(p.name, i)
			if math.IsNaN(value) {
				row = append(row, "–") // not measured
				continue
			}
			cell := f.format(value)
			if ratio, ok := r.ratio(p.name, zkLockName, i); ok && p.name != zkLockName {
				cell += fmt.Sprintf(" (%.2f)", ratio)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	table(w, r.workload+": "+r.title, head, rows)
	printNotes(w, r.peers)
}

// check returns an error if a figure is missing: Holdfast has all of them, and
// each peer has one at least.
func (r *result) check() error {
	for _, p := range r.peers {
		measured := 0
		for i, f := range r.figures {
			v := r.median(p.name, i)
			switch {
			case !math.IsNaN(v) && !math.IsInf(v, 0):
				measured++
			case p.name == holdfastName:
				return fmt.Errorf("%s has no figure of %q", p.title, f.title)
			}
		}
		if measured == 0 {
			return fmt.Errorf("%s has no figure", p.title)
		}
	}
	return nil
}

// titleOf returns the title of a peer that took part.
func (r *result) titleOf(name string) string {
	i := slices.IndexFunc(r.peers, func(p *peer) bool { return p.name == name })
	return r.peers[i].title
}

// met compares to two decimals of what is counted and of ratios, as it is shown; not of
// times, whose limits are small parts of a second.
func (b bar) met(v float64) bool {
	if b.limit == 0 || b.limit >= 0.01 {
		v = math.Round(v*100) / 100
	}
	if b.least {
		return v >= b.limit
	}
	return v <= b.limit
}

// of returns a peer's figures by round.
func (r *result) of(name string) [][]float64 {
	i := slices.IndexFunc(r.peers, func(p *peer) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return r.rounds[i]
}

func (r *result) median(name string, figure int) float64 {
	var all []float64
	for _, round := range r.of(name) {
		all = append(all, round[figure])
	}
	return median(all)
}

// ratio is the median of the ratios of two peers turn by turn. There is none of nothing to
// nothing.
func (r *result) ratio(name, to string, figure int) (float64, bool) {
	ours, theirs := r.of(name), r.of(to)
	if ours == nil || theirs == nil {
		return 0, false
	}
	var all []float64
	for i := range ours {
		all = append(all, ours[i][figure]/theirs[i][figure])
	}
	mid := median(all)
	return mid, !math.IsNaN(mid)
}

func median(v []float64) float64 { return quantile(v, 0.5) }

// quantile returns the value below which that share of the values lies, between
// two of them if need be; NaN of none.
func quantile(v []float64, share float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	at := share * float64(len(v)-1)
	low := int(at)
	high := min(low+1, len(v)-1)
	return v[low] + (at-float64(low))*(v[high]-v[low])
}

// table prints a table in Markdown.
func table(w io.Writer, title string, head []string, rows [][]string) {
	fmt.Fprintf(w, "\n### %s\n\n", title)
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, row := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}
