package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// madeUp returns a report of all experiments with random figures from the seed. Some figures of
// peers in other processes are missing.
func madeUp(s size, seed uint64) *report {
	random := rand.New(rand.NewPCG(seed, 0))
	r := &report{Head: "made up"}
	for _, e := range experiments(s) {
		one := &result{table: e.table}
		for _, p := range peers {
			if !e.takes(p) {
				continue
			}
			var values turn
			for i := range e.Figures {
				v := math.Exp(random.Float64()*18 - 8)
				if i > 0 && p.open == nil && random.IntN(2) == 0 {
					v = none
				}
				if e.Figures[i].Unit == kilobytes {
					v *= 100
				}
				values = append(values, v)
			}
			one.Peers, one.Rounds = append(one.Peers, p), append(one.Rounds, []turn{values})
		}
		r.results = append(r.results, one)
	}
	return r
}

// TestCharts: the charts show the figures and the peers of their experiments, and no text overlaps
// another text or a bar. The figures are random.
func TestCharts(t *testing.T) {
	for seed := range uint64(100) {
		r := madeUp(full, seed)
		charts := r.charts()
		if len(charts) != 5 {
			t.Fatalf("a run of everything has %d charts, want 5", len(charts))
		}
		words := make([]map[string]bool, len(charts))
		for i, c := range charts {
			words[i] = checkLayout(t, c)
		}
		for _, c := range []struct {
			chart           int
			workload, title string
			figure          int
		}{
			{0, "A", freeNear, 0}, {0, "A", freeFar, 0},
			{1, "C", handoffTitle(2, shortHold), 1}, {1, "C", handoffTitle(16, shortHold), 1}, {1, "C", handoffTitle(128, shortHold), 1},
			{2, "C", handoffTitle(2, shortHold), 3}, {2, "C", handoffTitle(1000, shortHold), 3},
			{3, "A", freeNear, 1}, {3, "C", handoffTitle(16, shortHold), 5},
			{4, "D", drainTitle(1000), 2}, {4, "D", drainTitle(4000), 2},
		} {
			one := r.find(c.workload, c.title)
			if one == nil {
				t.Fatalf("no experiment %s, %s", c.workload, c.title)
			}
			for _, p := range one.Peers {
				v := one.median(p.Name, c.figure)
				if math.IsNaN(v) || c.chart == 3 && p.Bare {
					continue
				}
				if want := one.Figures[c.figure].Unit.format(v); !words[c.chart][want] && !words[c.chart][want+", cut"] || !words[c.chart][p.Title] {
					t.Errorf("%s: %s of %s is not there:\n%v", charts[c.chart].file, want, p.Title, words[c.chart])
				}
			}
		}
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

// drawing has the rectangles and texts of an SVG.
type drawing struct {
	Width  float64 `xml:"width,attr"`
	Height float64 `xml:"height,attr"`
	Bars   []struct {
		Class  string  `xml:"class,attr"`
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Width  float64 `xml:"width,attr"`
		Height float64 `xml:"height,attr"`
	} `xml:"rect"`
	Texts []struct {
		Class  string  `xml:"class,attr"`
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Anchor string  `xml:"text-anchor,attr"`
		Words  string  `xml:",chardata"`
	} `xml:"text"`
}

// draw parses a chart's SVG. It fails the test if the SVG is not well-formed, loads anything, or
// has values that are no numbers.
func draw(t *testing.T, c chart) (d drawing) {
	t.Helper()
	svg := c.svg()
	if err := xml.Unmarshal(svg, &d); err != nil {
		t.Fatalf("%v:\n%s", err, svg)
	}
	d.Bars = d.Bars[1:] // the first rectangle is the paper
	for _, never := range []string{"href", "<script", "<image", "NaN", "Inf"} {
		if bytes.Contains(svg, []byte(never)) {
			t.Errorf("%s has %s", c.file, never)
		}
	}
	return d
}

// checkLayout fails the test if a text overlaps another text or a bar, or if an element exceeds the
// paper. It returns the texts.
func checkLayout(t *testing.T, c chart) map[string]bool {
	t.Helper()
	type mark struct {
		what                     string
		left, top, right, bottom float64
	}
	d, words := draw(t, c), make(map[string]bool)
	var marks []mark
	for _, x := range d.Texts {
		words[x.Words] = true
		size, width := 13.0, wide(x.Words)
		if x.Class == "title" {
			size, width = 16, 10*float64(len(x.Words))
		}
		left := x.X
		if x.Anchor == "end" {
			left -= width
		}
		marks = append(marks, mark{fmt.Sprintf("%q", x.Words), left, x.Y - 0.8*size, left + width, x.Y + 0.2*size})
	}
	texts := len(marks)
	for _, b := range d.Bars {
		marks = append(marks, mark{"a bar", b.X, b.Y, b.X + b.Width, b.Y + b.Height})
	}
	for i, m := range marks {
		if m.left < 1 || m.top < 1 || m.right > d.Width-1 || m.bottom > d.Height-1 {
			t.Errorf("%s: %s is not on the paper: %+v", c.file, m.what, m)
		}
		for _, o := range marks[:min(i, texts)] {
			if m.left < o.right && o.left < m.right && m.top < o.bottom && o.top < m.bottom {
				t.Errorf("%s: %s covers %s: %+v, %+v", c.file, m.what, o.what, m, o)
			}
		}
	}
	return words
}

// TestChartsOfAPart: the charts omit experiments that were not measured.
func TestChartsOfAPart(t *testing.T) {
	r := madeUp(small, 1)
	r.results = r.results[:1]
	var files []string
	for _, c := range r.charts() {
		checkLayout(t, c)
		files = append(files, c.file)
	}
	if want := "[free.svg requests.svg]"; fmt.Sprint(files) != want {
		t.Errorf("of workload A alone there are %v, want %s", files, want)
	}
	if charts := (&report{}).charts(); len(charts) != 0 {
		t.Errorf("of nothing there are %d charts", len(charts))
	}
}

// TestResultsAreKept: a report from a file of results has the tables and charts of the run. restore
// refuses broken files.
func TestResultsAreKept(t *testing.T) {
	r := madeUp(full, 1)
	var kept bytes.Buffer
	iferr.Fatal(t, r.save(&kept))
	saved := kept.String()
	again, err := restore(&kept)
	iferr.Fatal(t, err)
	var want, got strings.Builder
	if m, n := r.print(&want), again.print(&got); fmt.Sprint(m) != fmt.Sprint(n) {
		t.Errorf("missed %q, and by the file %q", m, n)
	}
	if want.String() != got.String() {
		t.Errorf("the tables of the file differ:\n%s\n%s", &want, &got)
	}
	charts := again.charts()
	for i, c := range r.charts() {
		if !bytes.Equal(c.svg(), charts[i].svg()) {
			t.Errorf("%s differs", c.file)
		}
	}
	for _, broken := range []string{
		"",
		saved[:len(saved)/2],
		strings.Replace(saved, `"rounds":[[[`, `"rounds":[[[1,`, 1),
		strings.Replace(saved, `"rounds":[[[`, `"rounds":[[],[[`, 1),
		`{"measured":""} {"peers":[],"rounds":[]}`,
		strings.Replace(saved, `"figure":1`, `"figure":99`, 1),
		strings.Replace(saved, `"title"`, `"name"`, 1),
	} {
		if _, err := restore(strings.NewReader(broken)); err == nil {
			t.Errorf("broken results are taken: %.300s", broken)
		}
	}
}

// TestPublished: the tables and charts in the repository are those of the published results.
func TestPublished(t *testing.T) {
	r, err := loadFile(resultsFile)
	iferr.Fatal(t, err)
	text, err := os.ReadFile(document)
	iferr.Fatal(t, err)
	if updated, err := r.updated("."); err != nil || updated != string(text) {
		t.Errorf("%s does not show what is in %s (%v): run make charts", document, resultsFile, err)
	}
	charts := r.charts()
	if len(charts) == 0 {
		t.Fatal("no charts")
	}
	for _, c := range charts {
		if svg, err := os.ReadFile(filepath.Join(chartsDir, c.file)); err != nil || !bytes.Equal(svg, c.svg()) {
			t.Errorf("%s does not show what is in %s (%v): run make charts", c.file, resultsFile, err)
		}
	}
}

// TestPage: the published page has one row for each experiment, with a figure of each of its peers,
// and the missed bars alone.
func TestPage(t *testing.T) {
	r := madeUp(full, 1)
	var text strings.Builder
	r.printPage(&text)
	for _, one := range r.results {
		row := regexp.MustCompile(`(?m)^\|`+regexp.QuoteMeta(strings.TrimSuffix(one.Title, loopback))+`\|(.*)\|$`).FindAllStringSubmatch(text.String(), -1)
		if len(row) == 0 {
			t.Errorf("no row %q", one.Title)
			continue
		}
		cells := 0
		for cell := range strings.SplitSeq(row[0][1], "|") {
			if strings.ContainsAny(cell, "0123456789") {
				cells++
			}
		}
		if cells != len(one.Peers) {
			t.Errorf("%q has %d cells for %d peers", one.Title, cells, len(one.Peers))
		}
	}
	bars, _ := r.bars()
	missed := 0
	for _, row := range bars {
		if row[3] != barMet {
			missed++
		}
	}
	if missed > 0 != strings.Contains(text.String(), fmt.Sprintf("### Bars: %d of %d are missed", missed, len(bars))) {
		t.Errorf("%d bars of %d are missed", missed, len(bars))
	}
}

// TestWhatCannotBeWritten: ready refuses a path or a document that update could not write, and
// update replaces only the text between the marks.
func TestWhatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := ready(filepath.Join(dir, "new"), ""); err != nil {
		t.Errorf("a new directory: %v", err)
	}
	file := filepath.Join(dir, document)
	iferr.Fatal(t, os.WriteFile(file, []byte("no marks\n"), 0o644))
	if err := ready("", dir); err == nil || !strings.Contains(err.Error(), "<!-- begin") {
		t.Errorf("a document without marks: %v", err)
	}
	if err := ready(file, ""); err == nil {
		t.Error("a file is taken for a directory")
	}
	iferr.Fatal(t, os.WriteFile(file, []byte("a\n"+beginMark+"stale\n"+endMark+"b\n"), 0o644))
	iferr.Fatal(t, ready("", dir))
	iferr.Fatal(t, madeUp(small, 1).update(dir))
	text, err := os.ReadFile(file)
	iferr.Fatal(t, err)
	if s := string(text); !strings.HasPrefix(s, "a\n"+beginMark) || !strings.HasSuffix(s, endMark+"b\n") ||
		strings.Contains(s, "stale") || !strings.Contains(s, "](charts/free.svg)") || !strings.Contains(s, "### A\n") {
		t.Errorf("the document became\n%s", s)
	}
}
