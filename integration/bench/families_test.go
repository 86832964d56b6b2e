package main

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// readmeRows maps README's rows to the figures that lock/FAMILIES.md names in full.
var readmeRows = map[string]string{
	"lock and unlock, free lock":                           "A, free lock, one client, loopback: lock + unlock, median",
	"requests for both":                                    "A, free lock, one client, loopback: requests",
	"unlock to next holder, 16 clients that hold for 2 ms": "C, handoff among 16 clients that hold for 2ms, loopback: unlock to next holder, median",
	"64 goroutines with a lock each, on one session":       "B, 64 goroutines on one session, a lock each, loopback: lock + unlock",
	"transactions for each of them":                        "B, 64 goroutines on one session, a lock each, loopback: transactions",
}

// TestFamilies: the figures in lock/FAMILIES.md and README.md agree with the benchmark's results. With
// UPDATE=1 it writes the results there, for a run of make bench UPDATE=1.
func TestFamilies(t *testing.T) {
	r, err := loadFile(resultsFile)
	iferr.Fatal(t, err)
	compared := 0
	for _, page := range []string{"../../lock/FAMILIES.md", "../../README.md"} {
		compared += r.compare(t, page)
	}
	if compared < 56 {
		t.Errorf("only %d figures compared", compared)
	}
}

// plain returns the median of a peer's figure as it is printed, or "–" if there is no value.
func (r *result) plain(peerTitle, figureTitle string) string {
	p := slices.IndexFunc(r.Peers, func(p *peer) bool { return p.Title == peerTitle })
	f := slices.IndexFunc(r.Figures, func(f figure) bool { return f.Title == figureTitle })
	if p < 0 || f < 0 || math.IsNaN(r.median(r.Peers[p].Name, f)) {
		return "–"
	}
	return r.Figures[f].Unit.format(r.median(r.Peers[p].Name, f))
}

// compare compares the figures of a page with the report, and returns their number.
func (r *report) compare(t *testing.T, page string) (compared int) {
	text, err := os.ReadFile(page)
	iferr.Fatal(t, err)
	var head []string
	var updated strings.Builder
	for line := range strings.Lines(string(text)) {
		updated.WriteString(line)
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) > 1 && cells[0] == "" {
			head = cells
		}
		name := cells[0]
		if full, ok := readmeRows[name]; ok {
			cells[0] = full
		}
		title, figure, ok := strings.Cut(cells[0], ": ")
		if len(cells) < 2 || !ok {
			continue
		}
		workload, title, _ := strings.Cut(title, ", ")
		one := r.find(workload, title)
		if one == nil {
			t.Errorf("there is no experiment %q", title)
			continue
		}
		measured := []string{name}
		for i, cell := range cells[1:] {
			want := one.plain(head[i+1], figure)
			if cell != want {
				t.Errorf("%s: %s has %s, the results say %s", cells[0], head[i+1], cell, want)
			}
			measured = append(measured, want)
			compared++
		}
		all := strings.TrimSuffix(updated.String(), line)
		updated.Reset()
		updated.WriteString(all + "| " + strings.Join(measured, " | ") + " |\n")
	}
	if os.Getenv("UPDATE") != "" {
		iferr.Fatal(t, os.WriteFile(page, []byte(updated.String()), 0o600))
	}
	return compared
}
