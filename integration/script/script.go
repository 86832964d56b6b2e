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
// that a test may accept. UPDATE=1 replaces the results in the files by those that come. A file that does not
// have this form fails the test.
package script

import (
	"fmt"
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
	file  string
	first int // the number of the first line in the file
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

func read(t *testing.T, file string) []*Scenario {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(file, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parse returns the scenarios of a file. Its error names the first line that is none of a scenario's.
func parse(file, text string) (all []*Scenario, err error) {
	commands, below := 0, false // of the last scenario; whether results may stand below the last line
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		name, begins := strings.CutPrefix(line, "== ")
		_, results, beside := strings.Cut(line+" ", " -> ")
		wrong := ""
		switch {
		case begins && len(all) > 0 && commands == 0:
			wrong = "the scenario before has no command"
		case begins && strings.TrimSpace(name) == "":
			wrong = "the scenario has no name"
		case begins:
			all, commands, below = append(all, &Scenario{Name: name, file: file, first: i + 2}), 0, false
			continue
		case len(all) == 0:
			wrong = "a file begins with a line == NAME"
		case line == "" || line[0] == '#':
			below = false
		case line[0] == '\t' && (!below || strings.TrimSpace(line) == ""):
			wrong = "an empty result, or one that is of no command"
		case line[0] == '\t':
		case line[0] == ' ' || line[0] == '=':
			wrong = "neither == NAME nor a command; a result stands after a tab"
		case beside && slices.ContainsFunc(strings.Split(results, " || "), empty):
			wrong = "there is no result behind the arrow"
		default:
			commands, below = commands+1, !beside
		}
		if wrong != "" {
			return nil, fmt.Errorf("%s:%d: %s: %q", file, i+1, wrong, line)
		}
		last := all[len(all)-1]
		last.Lines = append(last.Lines, line)
	}
	if commands == 0 {
		return nil, fmt.Errorf("%s: the last scenario has no command", file)
	}
	for _, sc := range all {
		for sc.Lines[len(sc.Lines)-1] == "" {
			sc.Lines = sc.Lines[:len(sc.Lines)-1]
		}
	}
	return all, nil
}

func empty(result string) bool { return strings.TrimSpace(result) == "" }

// Play runs the lines without their results, and returns them with the results that come. If do fails the test
// or panics, Play logs where in the file its line is.
func (sc *Scenario) Play(t *testing.T, do func(line string) (results []string)) (played []string) {
	at := 0
	defer func() {
		if at < len(sc.Lines) {
			t.Logf("%s:%d: %s", sc.file, sc.first+at, sc.Lines[at])
		}
	}()
	for ; at < len(sc.Lines); at++ {
		line, _, _ := strings.Cut(sc.Lines[at], " -> ")
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
			t.Fatalf("observed\n%s\n%s:%d: it is\n%s\nwant\n%s", strings.Join(played, "\n"), sc.file, sc.first+i, is, want)
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
