package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// figure is one measured quantity.
type figure struct {
	Title string
	Unit  struct {
		Scale  float64
		Format string
	}
}

// measured is one experiment in the benchmark's results.
type measured struct {
	Workload, Title string
	Figures         []figure
	Peers           []struct{ Title string }
	Rounds          [][][]any // by peer, turn and figure; what is no number was not measured
}

// cell returns the median of a peer's figure as the benchmark prints it, or "–" if there is no
// value.
func (m *measured) cell(title, peer string) string {
	f := slices.IndexFunc(m.Figures, func(f figure) bool { return f.Title == title })
	for i, p := range m.Peers {
		if f < 0 || p.Title != peer {
			continue
		}
		var values []float64
		for _, turn := range m.Rounds[i] {
			if v, ok := turn[f].(float64); ok {
				values = append(values, v)
			}
		}
		slices.Sort(values)
		if n := len(values); n > 0 {
			unit := m.Figures[f].Unit
			return fmt.Sprintf(unit.Format, (values[(n-1)/2]+values[n/2])/2*unit.Scale)
		}
	}
	return "–"
}

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
	data, err := os.ReadFile("bench/results.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	experiments := map[string]*measured{}
	for line := range bytes.Lines(data) {
		m := new(measured)
		if err := json.Unmarshal(line, m); err != nil {
			t.Fatal(err)
		}
		experiments[m.Workload+", "+m.Title] = m
	}
	compared := 0
	for _, page := range []string{"../lock/FAMILIES.md", "../README.md"} {
		compared += compareFigures(t, page, experiments)
	}
	if compared < 56 {
		t.Errorf("only %d figures compared", compared)
	}
}

// compareFigures compares the figures of a page with the experiments, and returns their number.
func compareFigures(t *testing.T, page string, experiments map[string]*measured) (compared int) {
	var head []string
	var updated strings.Builder
	for line := range strings.Lines(text(t, page)) {
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
		m := experiments[title]
		if m == nil {
			t.Errorf("there is no experiment %q", title)
			continue
		}
		measured := []string{name}
		for i, cell := range cells[1:] {
			want := m.cell(figure, head[i+1])
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
		if err := os.WriteFile(page, []byte(updated.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return compared
}

// raced is a result of integration/compare.
type raced struct {
	Kind     string
	Seed     uint64
	Duration time.Duration
	Servers  int
	Tables   []struct{ Rows [][]string }
}

// TestFamiliesOfJobs: lock/FAMILIES.md has the results of ticks of integration/compare, in rows for the
// races on one ZooKeeper server and in rows for the races on several.
func TestFamiliesOfJobs(t *testing.T) {
	var one, several []raced
	for line := range strings.Lines(text(t, "compare/results.jsonl")) {
		var r raced
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Kind != "ticks" {
			continue
		}
		if r.Duration < 10*time.Minute {
			t.Errorf("the race with seed %d lasted %v", r.Seed, r.Duration)
		}
		if r.Servers == 1 {
			one = append(one, r)
		} else {
			several = append(several, r)
		}
	}
	page := text(t, "../lock/FAMILIES.md")
	if len(one) < 2 {
		t.Fatalf("there are %d results on one server, want 2", len(one))
	}
	for _, races := range [][]raced{one, several} {
		if len(races) == 0 {
			continue
		}
		for i, cells := range races[0].Tables[0].Rows {
			row := "| " + cells[0]
			for at, cell := range cells {
				if at < 2 { // the group, and the number of ticks, which is the heading
					continue
				}
				for _, more := range races[1:] {
					if cell != "–" { // not counted in this group
						cell += " / " + more.Tables[0].Rows[i][at]
					}
				}
				row += " | " + cell
			}
			row += " |\n"
			if !strings.Contains(page, row) {
				t.Errorf("lock/FAMILIES.md must have the row\n%s", row)
			}
		}
	}
}
