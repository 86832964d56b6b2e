package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTableFits: each mutant can be made of the source as it is, and is not the
// source as it is.
func TestTableFits(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{root: root, temp: t.TempDir()}
	for _, m := range mutants {
		if _, err := b.overlay(m); err != nil { // also for two of one name
			t.Errorf("%s: %v", m.name, err)
		}
		if m.breaks == "" || len(m.edits) == 0 || len(m.tests) == 0 {
			t.Errorf("%s: %+v", m.name, m)
		}
		for _, e := range m.edits {
			if e.old == e.new {
				t.Errorf("%s changes nothing", m.name)
			}
		}
	}
}

// small is a module with a package lock, whose simulation notices what is wrong
// from its third history on.
var small = map[string]string{
	"go.mod": "module example.test\n\ngo 1.25\n",
	"lock/lock.go": `package lock

func Sum(a, b int) int {
	if b > 1000 {
		return -1
	}
	return a + b
}

func Twice(a int) int { return a * 2 }
`,
	"lock/lock_test.go": `package lock

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

func TestSimulation(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("SEEDS"))
	if err != nil {
		t.Fatal(err)
	}
	for seed := 1; seed <= n && !t.Failed(); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			if got := Sum(seed/3, seed/3); got != 2*(seed/3) {
				t.Errorf("seed %d: the sum is %d", seed, got)
			}
		})
	}
}

func TestSum(t *testing.T) {
	if got := Sum(1, 1); got != 2 {
		t.Errorf("the sum is %d", got)
	}
}

func TestTwice(t *testing.T) {
	if got := Twice(3); got != 6 {
		t.Errorf("twice 3 is %d", got)
	}
}
`,
}

func TestHunt(t *testing.T) {
	root := t.TempDir()
	for file, text := range small {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(becomes string) []edit { return []edit{{"lock/lock.go", "return a + b", becomes}} }
	for _, tt := range []struct {
		name  string
		m     mutant
		seeds int
		row   string // of the table
		fails string // "": it is caught
	}{
		{"caught by both", mutant{edits: sum("return a - b"), tests: []string{"lock.TestSum"}}, 9,
			"| simulation (seed 3), lock.TestSum | 3 |", ""},
		{"caught by the simulation", mutant{edits: sum("return a - b")}, 9, "| simulation (seed 3) | 3 |", ""},
		{"too few seeds", mutant{edits: sum("return a - b"), tests: []string{"lock.TestSum"}}, 2, "| lock.TestSum | more than 2 |", ""},
		{"no simulation", mutant{edits: sum("return a - b"), tests: []string{"lock.TestSum"}}, 0, "| lock.TestSum | not tried |", ""},
		{"two edits", mutant{edits: append(sum("return b + a"), edit{"lock/lock.go", "a * 2", "a"}), tests: []string{"lock.TestTwice"}}, 2,
			"| lock.TestTwice | more than 2 |", ""},
		{"survivor", mutant{edits: sum("return b + a")}, 9, "| **nothing** | more than 9 |", "survived: nothing notices that it is broken"},
		{"named test that passes", mutant{edits: sum("return a - b"), tests: []string{"lock.TestTwice"}}, 9, "", "lock.TestTwice does not notice"},
		{"does not compile", mutant{edits: sum("return c")}, 9, "", "does not compile"},
		{"panics", mutant{edits: sum("panic(a)")}, 9, "", "panic: "},
		{"exits", mutant{edits: []edit{{"lock/lock.go", "return a + b", "os.Exit(3)\n\treturn a"}, {"lock/lock.go", "package lock\n", "package lock\n\nimport \"os\"\n"}}}, 9,
			"", "exit status 3, but no test failed"},
		{"not found", mutant{edits: []edit{{"lock/lock.go", "return a / b", ""}}}, 9, "", "has 0 times, not once"},
		{"found twice", mutant{edits: []edit{{"lock/lock.go", "return", ""}}}, 9, "", "has 3 times, not once"},
		{"no such test", mutant{edits: sum("return a - b"), tests: []string{"lock.TestNone"}}, 9, "",
			"the code as it is must pass before it can be broken: there is no test lock.TestNone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.m.name, tt.m.breaks = "mutant", "it is broken"
			var out bytes.Buffer
			err := hunt(t.Context(), bench{root: root, seeds: tt.seeds}, []mutant{tt.m}, &out)
			if !strings.Contains(out.String(), tt.row) {
				t.Errorf("want a row with %q:\n%s", tt.row, &out)
			}
			if tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("error is %v, want %q", err, tt.fails)
			}
		})
	}
	now, err := os.ReadFile(filepath.Join(root, "lock/lock.go"))
	if err != nil || string(now) != small["lock/lock.go"] {
		t.Errorf("the checkout was written to: %v\n%s", err, now)
	}

	t.Run("red before anything is broken", func(t *testing.T) {
		red := strings.Replace(small["lock/lock.go"], "a + b", "a - b", 1)
		if err := os.WriteFile(filepath.Join(root, "lock/lock.go"), []byte(red), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := hunt(t.Context(), bench{root: root, seeds: 9}, []mutant{{name: "mutant", edits: []edit{{"lock/lock.go", "a - b", "b - a"}}}}, &out)
		if err == nil || !strings.Contains(err.Error(), "must pass before it can be broken: simulation: the sum is 0") {
			t.Errorf("error is %v", err)
		}
	})
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-run", "("}, {"-run", "no such mutant"}, {"-seeds", "-1"}, {"-seeds", "x"}, {"more"}} {
		var out, errs bytes.Buffer
		if code := command(t.Context(), args, &out, &errs); code != 2 || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("%q: exit status %d, %q, %q", args, code, &out, &errs)
		}
	}
}
