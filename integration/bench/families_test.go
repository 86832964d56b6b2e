package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestFamilies compares the figures in lock/FAMILIES.md with the published results.
func TestFamilies(t *testing.T) {
	r, err := loadFile("results.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../lock/FAMILIES.md")
	if err != nil {
		t.Fatal(err)
	}
	var head []string
	compared := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) > 1 && cells[0] == "" {
			head = cells
		}
		workload, rest, _ := strings.Cut(cells[0], ", ")
		title, name, ok := strings.Cut(rest, ": ")
		if len(cells) < 2 || len(workload) != 1 || !ok {
			continue
		}
		one := r.find(workload, title)
		if one == nil {
			t.Errorf("there is no experiment %s, %s", workload, title)
			continue
		}
		n := slices.IndexFunc(one.figures, func(f figure) bool { return f.title == name })
		if n < 0 {
			t.Errorf("%s, %s has no figure %q", workload, title, name)
			continue
		}
		for i, cell := range cells[1:] {
			want := "–" // it did not take part
			for _, p := range one.peers {
				if p.title == head[i+1] {
					want = one.figures[n].format(one.median(p.name, n))
				}
			}
			if cell != want {
				t.Errorf("%s: %s has %s, the results say %s", cells[0], head[i+1], cell, want)
			}
			compared++
		}
	}
	if compared < 40 {
		t.Errorf("%d figures compared: not all were found", compared)
	}
}
