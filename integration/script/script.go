// Package script runs scenarios that are text: lines, and what comes of each.
//
//	== a lock is taken
//	# a comment
//	client c
//	c create /a "one" -> /a
//	c children root
//		[a]
//		version 1
//
// One result stands behind its line, several below it, each after a tab. After " || " stand other results
// that a test may accept. UPDATE=1 replaces the results in the files by those that come.
package script

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Scenario is a part of a file, from a line "== name" to the next one.
type Scenario struct {
	Name  string
	Lines []string
}

// update says that the results in the files are to be replaced.
var update = os.Getenv("UPDATE") != ""

// Each runs f for each scenario of the files *.txt in the folder, in a test of its own.
func Each(t *testing.T, folder string, f func(t *testing.T, sc *Scenario)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", folder, err)
	}
	for _, file := range files {
		all := read(t, file)
		for _, sc := range all {
			t.Run(sc.Name, func(t *testing.T) { f(t, sc) })
		}
		if !update {
			continue
		}
		var texts []string
		for _, sc := range all {
			texts = append(texts, "== "+sc.Name+"\n"+strings.Join(sc.Lines, "\n")+"\n")
		}
		if err := os.WriteFile(file, []byte(strings.Join(texts, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, file string) (all []*Scenario) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split("\n"+string(text), "\n== ")[1:] {
		lines := strings.Split(strings.TrimSpace(part), "\n")
		all = append(all, &Scenario{lines[0], lines[1:]})
	}
	return all
}

// Play runs lines without their results, and returns them with the results that come.
func Play(lines []string, do func(line string) (results []string)) (played []string) {
	for _, line := range lines {
		line, _, _ := strings.Cut(line, " -> ")
		if line == "" || line[0] == '#' {
			played = append(played, line)
			continue
		}
		if line[0] == '\t' {
			continue
		}
		results := do(line)
		if len(results) == 1 {
			played = append(played, line+" -> "+results[0])
			continue
		}
		played = append(played, line)
		for _, r := range results {
			played = append(played, "\t"+r)
		}
	}
	return played
}

// Check compares played lines with those of the scenario, or replaces them. accepts returns those that may
// come for a line of the file: [First] or [Any].
func (sc *Scenario) Check(t *testing.T, played []string, accepts func(line string) []string) {
	t.Helper()
	if update {
		sc.Lines = withAlternatives(played, sc.Lines)
		return
	}
	for i := range max(len(played), len(sc.Lines)) {
		is, want := "nothing", "nothing"
		if i < len(played) {
			is = played[i]
		}
		if i < len(sc.Lines) {
			want = sc.Lines[i]
		}
		if !slices.Contains(accepts(want), is) {
			t.Fatalf("observed\n%s\nline %d is\n%s\nwant\n%s", strings.Join(played, "\n"), i+1, is, want)
		}
	}
}

// Any returns the line with each of its results.
func Any(line string) (all []string) {
	head, rest, ok := strings.Cut(line, " -> ")
	if head += " -> "; !ok {
		head, rest = "", line
	}
	for result := range strings.SplitSeq(rest, " || ") {
		all = append(all, head+result)
	}
	return all
}

// First returns the line with its first result.
func First(line string) []string { return Any(line)[:1] }

// withAlternatives adds to played lines the other results that they have in the file.
func withAlternatives(played, file []string) []string {
	others := make(map[string]string)
	for _, line := range file {
		head, results, _ := strings.Cut(line, " -> ")
		if _, rest, ok := strings.Cut(results, " || "); ok {
			others[head] = " || " + rest
		}
	}
	for i, line := range played {
		head, _, _ := strings.Cut(line, " -> ")
		played[i] += others[head]
	}
	return played
}
