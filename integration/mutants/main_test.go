package main

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/repeatable"
	"github.com/holdfast-io/holdfast/lock/history/audit"
)

// TestMutantsApply: the code that each mutant replaces is there, the mutants compile, and the tests
// that they name exist.
func TestMutantsApply(t *testing.T) {
	root, err := filepath.Abs("../..")
	iferr.Fatal(t, err)
	mutants, err := load(root)
	if err != nil || len(mutants) == 0 {
		t.Fatal(len(mutants), err)
	}
	tests := map[string]string{} // the source of a package's tests
	build := []string{"build", "-overlay", ""}
	for _, m := range mutants {
		if m.wire != "" && !slices.Contains(audit.Rules(), audit.Rule(m.wire)) {
			t.Errorf("%s: the audit has no rule %s", m.at, m.wire)
		}
		for _, name := range m.tests {
			pkg, test := path.Split(strings.ReplaceAll(name, ".", "/"))
			if tests[pkg] == "" {
				tests[pkg] = sources(t, filepath.Join(root, pkg, "*_test.go"))
			}
			if !strings.Contains(tests[pkg], "\nfunc "+test+"(t *testing.T) {\n") {
				t.Errorf("%s: %s: there is no test %s", m.at, m.name, name)
			}
		}
		for _, e := range m.edits {
			build = append(build, "./"+e.pkg)
		}
	}
	replace, err := merge(root, t.TempDir(), mutants)
	iferr.Fatal(t, err)
	if build[2], err = repeatable.Overlay(t.TempDir(), replace); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", build...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the mutants do not compile: %v\n%s", err, out)
	}
}

func sources(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	iferr.Fatal(t, err)
	var all strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		iferr.Fatal(t, err)
		all.Write(source)
	}
	return all.String()
}

// small is a module with a package lock and its simulation. If Sum is broken, the simulation fails from its third
// history on.
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
	"lock/internal/sim/sim_test.go": `package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"example.test/lock"
)

func TestSimulation(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("SEEDS"))
	if err != nil {
		t.Fatal(err)
	}
	for seed := 1; seed <= n && !t.Failed(); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			if got := lock.Sum(seed/3, seed/3); got != 2*(seed/3) {
				t.Errorf("seed %d: the sum is %d", seed, got)
			}
		})
	}
}

`,
	"lock/lock_test.go": `package lock

import "testing"

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

// write writes files below a folder.
func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for file, text := range files {
		path := filepath.Join(folder, file)
		iferr.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o700))
		iferr.Fatal(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// numbered completes mutants of the module small.
func numbered(mutants ...mutant) []mutant {
	for i := range mutants {
		mutants[i].at, mutants[i].breaks, mutants[i].number = "sum.txt:1", "it is broken", i+1
	}
	return mutants
}

// sum returns an edit of the function Sum of the module small.
func sum(becomes string) []edit { return []edit{{"lock", "Sum", "return a + b", becomes}} }

// TestHunt: mutants that share test binaries have the results that each would have alone.
func TestHunt(t *testing.T) {
	root := t.TempDir()
	write(t, root, small)
	const named, other = "lock.TestSum", "lock.TestTwice"
	both := append(sum("return b + a"), edit{"lock", "Twice", "a * 2", "a"})
	mutants := numbered(
		mutant{name: "both", edits: sum("return a - b"), tests: []string{named}},
		mutant{name: "by-seed", edits: sum("return a - b")},
		mutant{name: "two-edits", edits: both, tests: []string{other}},
		mutant{name: "survivor", edits: sum("return b + a")},
		mutant{name: "unnoticed", edits: sum("return a - b"), tests: []string{other}},
		mutant{name: "panic", edits: sum("panic(a)")},
		mutant{name: "named-panic", edits: sum("panic(a)"), tests: []string{named}},
	)
	var out bytes.Buffer
	err := hunt(t.Context(), bench{root: root, seeds: 9}, mutants, &out)
	for _, row := range []string{
		"| both | it is broken | simulation (seed 3), lock.TestSum | 3 |\n",
		"| by-seed | it is broken | simulation (seed 3) | 3 |\n",
		"| two-edits | it is broken | lock.TestTwice | more than 9 |\n",
		"| survivor | it is broken | **nothing** | more than 9 |\n",
		"| panic | it is broken | **nothing** | more than 9 |\n",
		"\n3 of 7 mutants caught in ",
	} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("want %q:\n%s", row, &out)
		}
	}
	for _, says := range []string{
		"sum.txt:1: survivor survived: nothing notices that it is broken", "sum.txt:1: panic survived: ",
		"unnoticed: lock.TestTwice does not notice that it is broken", "named-panic: ^(TestSum)$ in lock: panics: ",
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: error is %v", says, err)
		}
	}
	out.Reset()
	few := numbered(mutant{name: "few", edits: sum("return a - b"), tests: []string{named}})
	if err := hunt(t.Context(), bench{root: root, seeds: 2}, few, &out); err != nil || !strings.Contains(out.String(), "| lock.TestSum | more than 2 |") {
		t.Errorf("too few seeds: %v\n%s", err, &out)
	}
	now, err := os.ReadFile(filepath.Join(root, "lock/lock.go"))
	if err != nil || string(now) != small["lock/lock.go"] {
		t.Errorf("the checkout was written to: %v\n%s", err, now)
	}
}

// TestHuntEndsEarly: mutants that do not apply or compile, and tests that do not pass, are told before
// anything is broken.
func TestHuntEndsEarly(t *testing.T) {
	root := t.TempDir()
	write(t, root, small)
	for _, tt := range []struct {
		name  string
		m     mutant
		fails string
	}{
		{"no syntax", mutant{edits: sum("return a +")}, "m.mutant:"},
		{"types", mutant{edits: sum("return c")}, "m.mutant:5: undefined: c"},
		{"not there", mutant{edits: []edit{{"lock", "Sum", "return a / b", ""}}}, "sum.txt:1: m: not found in lock.Sum:\nreturn a / b"},
		{"elsewhere", mutant{edits: []edit{{"lock", "Sum", "a * 2\n", "a"}}}, "a * 2\nbut this one has it: Twice"},
		{"no function", mutant{edits: []edit{{"lock", "Add", "return a + b\n", "return 0"}}}, "not found: function lock.Add\nbut this one has it: Sum"},
		{"no package", mutant{edits: []edit{{"unlock", "Add", "return a + b", "return 0"}}}, "sum.txt:1: m: "},
		{"no test", mutant{edits: sum("return a"), tests: []string{"lock.TestNone"}}, "must pass before it can be broken: there is no test lock.TestNone"},
	} {
		tt.m.name = "m"
		var out bytes.Buffer
		if err := hunt(t.Context(), bench{root: root, seeds: 2}, numbered(tt.m), &out); err == nil || !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: want %q, error is %v", tt.name, tt.fails, err)
		}
	}
	write(t, root, map[string]string{"lock/lock.go": strings.Replace(small["lock/lock.go"], "a + b", "b - a + 1", 1)})
	m := mutant{name: "m", edits: []edit{{"lock", "Twice", "a * 2", "a"}}}
	var out bytes.Buffer
	err := hunt(t.Context(), bench{root: root, seeds: 9}, numbered(m), &out)
	if err == nil || !strings.Contains(err.Error(), "must pass before it can be broken: simulation: the sum is ") {
		t.Errorf("red before anything is broken: %v", err)
	}
}
