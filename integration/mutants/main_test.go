package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/holdfast-io/holdfast/lock/history/audit"
)

// TestPatchesApply: each patch applies to the present source and changes it. The tests that a patch
// names exist.
func TestPatchesApply(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := load(patches)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	if err := filepath.WalkDir("patches", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "README.md" {
			files++
		}
		return err
	}); err != nil || files == 0 || len(mutants) != files {
		t.Errorf("%d mutants of %d files: %v", len(mutants), files, err)
	}
	temp := t.TempDir()
	tests := map[string]string{} // the source of a package's tests
	for _, m := range mutants {
		if _, err := m.apply(root, filepath.Join(temp, m.name)); err != nil {
			t.Error(err)
		}
		if m.wire != "" && !slices.Contains(audit.Rules(), audit.Rule(m.wire)) {
			t.Errorf("%s: the audit has no rule %s", m.file, m.wire)
		}
		for _, name := range m.tests {
			pkg, test := path.Split(strings.ReplaceAll(name, ".", "/"))
			if tests[pkg] == "" {
				tests[pkg] = sources(t, filepath.Join(root, pkg, "*_test.go"))
			}
			if !strings.Contains(tests[pkg], "\nfunc "+test+"(t *testing.T) {\n") {
				t.Errorf("%s: there is no test %s", m.file, name)
			}
		}
	}
}

func sources(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(source)
	}
	return all.String()
}

func TestLoad(t *testing.T) {
	const (
		breaks = "breaks: all locks are free\n"
		tests  = "tests: lock.TestA lock/znode.TestB\n"
		diff   = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
		good   = breaks + tests + "\n" + diff
	)
	fsys := fstest.MapFS{
		"patches/time/z.patch":  {Data: []byte(good)},
		"patches/y.patch":       {Data: []byte(breaks + tests + "wire: purge\n\n" + diff)},
		"patches/README.md":     {Data: []byte("how to write one")},
		"elsewhere/other.patch": {Data: []byte("none of these")},
	}
	want := []mutant{
		{name: "z", breaks: "all locks are free", tests: []string{"lock.TestA", "lock/znode.TestB"}, file: "patches/time/z.patch", diff: diff},
		{name: "y", breaks: "all locks are free", tests: []string{"lock.TestA", "lock/znode.TestB"}, wire: "purge", file: "patches/y.patch", diff: diff},
	}
	if got, err := load(fsys); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("loaded %+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"empty":                "",
		"no header":            diff,
		"breaks missing":       tests + "\n" + diff,
		"breaks nothing":       "breaks: \n" + tests + "\n" + diff,
		"tests missing":        breaks + "\n" + diff,
		"tests named none":     breaks + "tests: \n\n" + diff,
		"test without package": breaks + "tests: TestA\n\n" + diff,
		"test that is none":    breaks + "tests: lock.Lock\n\n" + diff,
		"twice":                breaks + breaks + tests + "\n" + diff,
		"wire without a rule":  breaks + tests + "wire: \n\n" + diff,
		"another key":          breaks + "test: lock.TestA\n" + tests + "\n" + diff,
		"no diff":              breaks + tests,
		"diff without a/ b/":   breaks + tests + "\n" + "diff --git x x\n",
	} {
		_, err := load(fstest.MapFS{"patches/time/bad.patch": {Data: []byte(text)}})
		if err == nil || !strings.Contains(err.Error(), `patches/time/bad.patch: want the line "breaks: `) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	fsys["patches/wait/z.patch"] = fsys["patches/y.patch"]
	if _, err := load(fsys); err == nil || !strings.Contains(err.Error(), "patches/wait/z.patch: patches/time/z.patch has the same name") {
		t.Errorf("two of one name: error is %v", err)
	}
}

// small is a module with a package lock. If Sum is broken, the simulation fails from its third
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

// write writes files below a folder.
func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for file, text := range files {
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// diff returns git's diff of replacements in lock/lock.go of the module small.
func diff(t *testing.T, oldnew ...string) string {
	t.Helper()
	folder := t.TempDir()
	changed := maps.Clone(small)
	changed["lock/lock.go"] = strings.NewReplacer(oldnew...).Replace(small["lock/lock.go"])
	write(t, filepath.Join(folder, "a"), small)
	write(t, filepath.Join(folder, "b"), changed)
	cmd := exec.Command("git", "diff", "--no-index", "--no-prefix", "a", "b")
	cmd.Dir = folder
	out, _ := cmd.Output() // a nonzero exit status means that the files differ
	return string(out)
}

func TestHunt(t *testing.T) {
	root := t.TempDir()
	write(t, root, small)
	sum := func(becomes string) string { return diff(t, "return a + b", becomes) }
	minus := sum("return a - b")
	for _, tt := range []struct {
		name  string
		m     mutant
		seeds int
		row   string // of the table
		fails string // "": it is caught
	}{
		{"caught by both", mutant{diff: minus, tests: []string{"lock.TestSum"}}, 9,
			"| simulation (seed 3), lock.TestSum | 3 |", ""},
		{"caught by the simulation", mutant{diff: minus}, 9, "| simulation (seed 3) | 3 |", ""},
		{"too few seeds", mutant{diff: minus, tests: []string{"lock.TestSum"}}, 2, "| lock.TestSum | more than 2 |", ""},
		{"no simulation", mutant{diff: minus, tests: []string{"lock.TestSum"}}, 0, "| lock.TestSum | not tried |", ""},
		{"two edits", mutant{diff: diff(t, "return a + b", "return b + a", "a * 2", "a"), tests: []string{"lock.TestTwice"}}, 2,
			"| lock.TestTwice | more than 2 |", ""},
		{"moved", mutant{diff: strings.NewReplacer("@@ -5,", "@@ -3,", "> 1000", "> 9").Replace(minus)}, 9, "| simulation (seed 3) | 3 |", ""},
		{"survivor", mutant{diff: sum("return b + a")}, 9, "| **nothing** | more than 9 |", "survived: nothing notices that it is broken"},
		{"named test that passes", mutant{diff: minus, tests: []string{"lock.TestTwice"}}, 9, "", "lock.TestTwice does not notice"},
		{"does not compile", mutant{diff: sum("return c")}, 9, "", "does not compile"},
		{"the simulation panics", mutant{diff: sum("panic(a)")}, 9, "| **nothing** | more than 9 |", "survived: nothing notices that it is broken"},
		{"a named test panics", mutant{diff: sum("panic(a)"), tests: []string{"lock.TestSum"}}, 9, "", "TestSum)$ in lock: panics: "},
		{"exits", mutant{diff: diff(t, "return a + b", "os.Exit(3)\n\treturn a", "package lock\n", "package lock\n\nimport \"os\"\n")}, 9,
			"", "exit status 3, but no test failed"},
		{"not found", mutant{diff: strings.ReplaceAll(minus, "a + b", "a / b")}, 9, "", "mutant.patch does not apply"},
		{"no such file", mutant{diff: strings.ReplaceAll(minus, "lock.go", "unlock.go")}, 9, "", "mutant.patch: open "},
		{"changes nothing", mutant{diff: "diff --git a/lock/lock.go b/lock/lock.go\nold mode 100600\nnew mode 100700\n"}, 9,
			"", "mutant.patch changes nothing in "},
		{"no such test", mutant{diff: minus, tests: []string{"lock.TestNone"}}, 9, "",
			"the code as it is must pass before it can be broken: there is no test lock.TestNone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.m.name, tt.m.file, tt.m.breaks = "mutant", "mutant.patch", "it is broken"
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
		write(t, root, map[string]string{"lock/lock.go": strings.Replace(small["lock/lock.go"], "a + b", "a - b", 1)})
		var out bytes.Buffer
		err := hunt(t.Context(), bench{root: root, seeds: 9}, []mutant{{name: "mutant", diff: minus}}, &out)
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
