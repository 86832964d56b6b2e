package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
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
	for _, p := range peers {
		if p.program.Version != "" {
			client += ", " + p.program.Version
		}
	}
	r.head = fmt.Sprintf("%s. ZooKeeper %s, standalone, fsync on; %s; %s; %s, %d CPUs; load average at the start %s. Medians of %d rounds; in brackets the median ratio to %s, turn by turn.",
		time.Now().UTC().Format(time.DateOnly), b.version, client, runtime.Version(), cpu(), runtime.NumCPU(), load(), b.rounds, zkLockName)
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
			value, ok := one.value(b)
			if !ok {
				continue // without that peer
			}
			name := fmt.Sprintf("%s, %s: %s", one.workload, one.title, one.figures[b.figure].title)
			limit, format, sign := "", one.figures[b.figure].format, "≤"
			if b.least {
				sign = "≥"
			}
			if b.against != "" {
				format = func(v float64) string { return fmt.Sprintf("%.2f", v) }
				limit = " of " + title(b.against)
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

func title(name string) string {
	i := slices.IndexFunc(peers, func(p *peer) bool { return p.name == name })
	return peers[i].title
}

func (r *result) print(w io.Writer) {
	head := []string{""}
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
}

// value is what Holdfast has of what a bar is set on.
func (r *result) value(b bar) (float64, bool) {
	if b.against != "" {
		return r.ratio(holdfastName, b.against, b.figure)
	}
	return r.median(holdfastName, b.figure), r.of(holdfastName) != nil
}

// met compares to two decimals of what is counted and of ratios, as it is shown.
func (b bar) met(v float64) bool {
	v = math.Round(v*100) / 100
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

// ratio is the median of the ratios of two peers turn by turn.
func (r *result) ratio(name, to string, figure int) (float64, bool) {
	ours, theirs := r.of(name), r.of(to)
	if ours == nil || theirs == nil {
		return 0, false
	}
	var all []float64
	for i := range ours {
		all = append(all, ours[i][figure]/theirs[i][figure])
	}
	return median(all), true
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
