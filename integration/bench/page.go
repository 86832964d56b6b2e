package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// shown are the figures in the tables of the published page. The results and bench.md have all of
// them.
var shown = []string{
	"lock + unlock, median", "lock + unlock", "try, median",
	"handoffs", "unlock to next holder, median", "bytes to clients", "held at once, on average", "Jain's index of the clients",
	"joining", "draining", "bytes to clients, for each waiter",
	"heap, per hold", "holds, per transaction and third of the TTL", "CPU time, per renewal", "of the TTL left, at least", "transactions, per hold", "time to close",
	"scan: trees", "deletes: nodes", "above the listing",
	"first sweep: locks", "the next: locks", "its requests, for each",
	"last unlock done to writer in", "requests of the writer in that time",
}

// counted returns the count that is shown of a workload without handoffs: among handoffs, bytes say
// more.
func counted(workload string) string {
	if workload == "B" { // locks share transactions
		return "transactions"
	}
	return "requests"
}

// pageTable is a table of the published page: experiments with the same figures and the same first
// peer, one to a row.
type pageTable struct {
	workload string
	figures  []string
	results  []*result
}

// printPage prints the tables of the published page in Markdown: a row for each experiment, a column
// for each peer, and in the end the bars that were missed.
func (r *report) printPage(w io.Writer) {
	fmt.Fprintln(w, r.Head)
	var tables []*pageTable
	for _, one := range r.results {
		figures := one.shown()
		at := slices.IndexFunc(tables, func(t *pageTable) bool {
			return t.workload == one.Workload && slices.Equal(t.figures, figures) && t.results[0].Peers[0].Title == one.Peers[0].Title
		})
		if at < 0 {
			at = len(tables)
			tables = append(tables, &pageTable{workload: one.Workload, figures: figures})
		}
		tables[at].results = append(tables[at].results, one)
	}
	slices.SortStableFunc(tables, func(a, b *pageTable) int { return strings.Compare(a.workload, b.workload) })
	for _, t := range tables {
		t.print(w)
	}
	fmt.Fprintf(w, "\n%s Another system, with other guarantees: see the table of [the peers](METHOD.md#the-peers).\n", mark)
	rows, _ := r.bars()
	var missed [][]string
	for _, row := range rows {
		if row[3] != barMet {
			missed = append(missed, []string{strings.Replace(row[0], loopback, "", 1), strings.Replace(row[1], loopback, "", 1), row[2]})
		}
	}
	if len(missed) > 0 {
		printTable(w, fmt.Sprintf("Bars: %d of %d are missed", len(missed), len(rows)), []string{"figure of Holdfast", "bar", "measured"}, missed)
	}
}

// shown returns the titles of the figures that the page has of an experiment.
func (r *result) shown() (titles []string) {
	single := !slices.ContainsFunc(r.Figures, func(f figure) bool { return f.Title == "handoffs" })
	for _, f := range r.Figures {
		if slices.Contains(shown, f.Title) || single && f.Title == counted(r.Workload) {
			titles = append(titles, f.Title)
		}
	}
	return titles
}

func (t *pageTable) print(w io.Writer) {
	head := []string{strings.Join(t.figures, " · ")}
	for _, one := range t.results {
		for _, p := range one.Peers {
			if !slices.Contains(head, p.Title) {
				head = append(head, p.Title)
			}
		}
	}
	var rows [][]string
	for _, one := range t.results {
		row := []string{strings.TrimSuffix(one.Title, loopback)}
		for _, title := range head[1:] {
			row = append(row, one.cell(title, t.figures))
		}
		rows = append(rows, row)
	}
	printTable(w, t.workload, head, rows)
}

// cell returns the figures of the peer with a title, or "–". Behind the first figure of Holdfast
// stands its ratio to zk.Lock.
func (r *result) cell(title string, figures []string) string {
	at := slices.IndexFunc(r.Peers, func(p *peer) bool { return p.Title == title })
	if at < 0 {
		return "–"
	}
	p := r.Peers[at]
	var cells []string
	for i, f := range r.Figures {
		if !slices.Contains(figures, f.Title) {
			continue
		}
		text := "–" // not measured
		if value := r.median(p.Name, i); !math.IsNaN(value) {
			text = f.Unit.format(value)
			if ratio, ok := r.ratio(p.Name, zkLockName, i); ok && p.Name == holdfastName && len(cells) == 0 {
				text += fmt.Sprintf(" (%.2f)", ratio)
			}
		}
		cells = append(cells, text)
	}
	return strings.Join(cells, " · ")
}
