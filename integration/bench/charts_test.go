package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// madeUp is a report of all experiments with the random figures of a seed.
func madeUp(s size, seed uint64) *report {
	random := rand.New(rand.NewPCG(seed, 0))
	r := &report{head: "made up"}
	for _, e := range experiments(s) {
		one := &result{experiment: e}
		for _, p := range peers {
			if !e.takes(p) {
				continue
			}
			var turn []float64
			for i := range e.figures {
				v := math.Exp(random.Float64()*18 - 8)
				if i > 0 && p.open == nil && random.IntN(2) == 0 {
					v = math.NaN()
				}
				if e.figures[i].unit == kilobytes {
					v *= 100
				}
				turn = append(turn, v)
			}
			one.peers, one.rounds = append(one.peers, p), append(one.rounds, [][]float64{turn})
		}
		r.results = append(r.results, one)
	}
	return r
}

// TestCharts draws whatever figures there may be: all that was measured is
// written, in the drawing, and nothing covers anything.
func TestCharts(t *testing.T) {
	for seed := range uint64(100) {
		r := madeUp(full, seed)
		charts := r.charts()
		if len(charts) != 5 {
			t.Fatalf("a run of everything has %d charts, want 5", len(charts))
		}
		for _, c := range charts {
			checkLayout(t, c)
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
			words := read(t, charts[c.chart].svg())
			for _, p := range one.peers {
				v := one.median(p.name, c.figure)
				if math.IsNaN(v) || c.chart == 2 && !goLocks(p) || c.chart == 3 && p.bare {
					continue
				}
				if want := one.figures[c.figure].format(v); !words[want] || !words[p.title] {
					t.Errorf("%s: %s of %s is not there:\n%v", charts[c.chart].file, want, p.title, words)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

// checkLayout fails the test if a text covers another one, a bar or a dot, or
// anything leaves the paper.
func checkLayout(t *testing.T, c chart) {
	t.Helper()
	paper := box{x: 1, y: 1, width: c.width - 2, height: c.height - 2}
	type mark struct {
		what string
		box
	}
	var marks []mark
	for _, x := range c.texts {
		marks = append(marks, mark{fmt.Sprintf("%q", x.words), x.box()})
	}
	texts := len(marks)
	for _, b := range c.bars {
		marks = append(marks, mark{"a bar", b})
	}
	for _, d := range c.dots {
		marks = append(marks, mark{"a dot", d.box()})
	}
	for i, m := range marks {
		if m.x < paper.x || m.y < paper.y || m.x+m.width > paper.x+paper.width || m.y+m.height > paper.y+paper.height {
			t.Errorf("%s: %s is not on the paper: %+v", c.file, m.what, m.box)
		}
		for _, o := range marks[:min(i, texts)] {
			if m.overlaps(o.box) {
				t.Errorf("%s: %s covers %s: %+v, %+v", c.file, m.what, o.what, m.box, o.box)
			}
		}
	}
}

// read returns the texts of an SVG, and fails the test if it is not well-formed, or
// asks for anything from elsewhere.
func read(t *testing.T, svg []byte) map[string]bool {
	t.Helper()
	words := make(map[string]bool)
	d := xml.NewDecoder(bytes.NewReader(svg))
	for inside := ""; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return words
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local
			for _, a := range token.Attr {
				if a.Name.Local == "href" || inside == "script" || inside == "image" {
					t.Errorf("<%s %s=%q>", inside, a.Name.Local, a.Value)
				}
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("<%s %s=%q>", inside, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if inside == "text" {
				words[string(token)] = true
			}
		case xml.EndElement:
			inside = ""
		}
	}
}

// TestChartsOfAPart: what was not measured is not drawn.
func TestChartsOfAPart(t *testing.T) {
	r := madeUp(small, 1)
	r.results = r.results[:1]
	var files []string
	for _, c := range r.charts() {
		checkLayout(t, c)
		read(t, c.svg())
		files = append(files, c.file)
	}
	if want := "[free.svg requests.svg]"; fmt.Sprint(files) != want {
		t.Errorf("of workload A alone there are %v, want %s", files, want)
	}
	if charts := (&report{}).charts(); len(charts) != 0 {
		t.Errorf("of nothing there are %d charts", len(charts))
	}
}

// TestLongBars: one that is many times as long as the others does not make them
// vanish.
func TestLongBars(t *testing.T) {
	g := barGroup{title: "g", unit: milliseconds, peers: peers[:4], values: []float64{1, 2, 3, 1000}}
	d := barChart("t", "n", g)
	if len(d.bars) != 5 || d.bars[2].width < 100 {
		t.Errorf("the bars are %+v, want the last in two parts, and the others long enough", d.bars)
	}
	checkLayout(t, chart{"long", d})
	if words := read(t, d.svg()); !words["1000000.000 ms"] || !words["a bar with a gap is longer than it is drawn"] {
		t.Errorf("the texts are %v", words)
	}
	g.values = []float64{1, 2, 3, 4}
	if d := barChart("t", "n", g); len(d.bars) != 4 {
		t.Errorf("with bars of a like length there are %d", len(d.bars))
	}
	g.values = []float64{0, 0, 0, 0}
	if d := barChart("t", "n", g); d != nil {
		t.Errorf("of zeros there is a chart: %+v", d.bars)
	}
}

// TestShares: a handoff that mostly goes back to the client that unlocked is not shown without
// saying so.
func TestShares(t *testing.T) {
	r := madeUp(full, 1)
	title := handoffTitle(16, shortHold)
	one := r.find("C", title)
	for i, p := range one.peers {
		one.rounds[i][0][1], one.rounds[i][0][7] = 1, 1
		if p.name == "redis" {
			one.rounds[i][0][7] = 0.04
		}
	}
	for i, p := range r.waits(16).peers {
		want := ""
		if p.name == "redis" {
			want = "share to another client 0.04"
		}
		if got := r.waits(16).note(i); got != want {
			t.Errorf("%s: %q, want %q", p.title, got, want)
		}
	}
	if words := read(t, r.charts()[1].svg()); !words["share to another client 0.04"] {
		t.Errorf("the chart does not show the share: %v", words)
	}
}

func TestTextIsEscaped(t *testing.T) {
	d := newDrawing(`a < b & "c"`, "")
	d.height = 100
	if words := read(t, d.svg()); !words[d.title] {
		t.Errorf("%q became %v", d.title, words)
	}
}

// TestResultsAreKept: of what is in a file the same report is made as of what was
// measured.
func TestResultsAreKept(t *testing.T) {
	r := madeUp(full, 1)
	var kept bytes.Buffer
	if err := r.save(&kept); err != nil {
		t.Fatal(err)
	}
	saved := kept.String()
	again, err := restore(&kept)
	if err != nil {
		t.Fatal(err)
	}
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

// TestPublished: the document's tables and charts are those of its results.
func TestPublished(t *testing.T) {
	r, err := loadFile(resultsFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
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

// TestWhatCannotBeWritten is told before anything is measured.
func TestWhatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := ready(filepath.Join(dir, "new"), ""); err != nil {
		t.Errorf("a new directory: %v", err)
	}
	file := filepath.Join(dir, document)
	if err := os.WriteFile(file, []byte("no marks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := ready("", dir); err == nil || !strings.Contains(err.Error(), "<!-- begin") {
		t.Errorf("a document without marks: %v", err)
	}
	if err := ready(file, ""); err == nil {
		t.Error("a file is taken for a directory")
	}
	if err := os.WriteFile(file, []byte("a\n"+beginMark+"stale\n"+endMark+"b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := ready("", dir); err != nil {
		t.Fatal(err)
	}
	if err := madeUp(small, 1).update(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, "a\n"+beginMark) || !strings.HasSuffix(s, endMark+"b\n") ||
		strings.Contains(s, "stale") || !strings.Contains(s, "](charts/free.svg)") || !strings.Contains(s, "### Bars") {
		t.Errorf("the document became\n%s", s)
	}
}
