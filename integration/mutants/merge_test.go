package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shapes is a program with functions of all shapes.
const shapes = `package main // shapes

import (
	"fmt"
	"strings"
)

type list[E any] struct{ all []E }

func (l *list[E]) add(all ...E) (n int) { l.all = append(l.all, all...); return len(l.all) }

const two = 2

func twice[A, B fmt.Stringer](a A, b B) string { return a.String() + b.String() }

func show(s ...any) { fmt.Println(s...) }

// down calls itself.
func down(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + down(n-1)
}

func unnamed(int) string { return strings.Repeat("u", two) }

type name string

func (n name) String() string { return string(n) }

func main() {
	var l list[int]
	show(l.add(1, 2), twice(name("a"), name("b")), down(3), unnamed(1))
}
`

// TestMerge: one program has all mutants, and behaves like the selected one. A mutant is not merged
// if merging could change its behavior.
func TestMerge(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{"go.mod": "module example.test\n\ngo 1.25\n", "main.go": shapes})
	tests := []struct {
		name    string
		oldnew  []string
		alone   bool
		outputs string
	}{
		{"variadic method of a generic type", []string{"return len(l.all)", "return -len(l.all)"}, false, "-2 ab 3 uu\n"},
		{"generic function", []string{"a.String() + b.String()", "b.String() + a.String()"}, false, "2 ba 3 uu\n"},
		{"another of it", []string{"a.String() + b.String()", "a.String()"}, false, "2 a 3 uu\n"},
		{"without results", []string{"fmt.Println(s...)", "fmt.Print(s...)"}, false, "2ab3uu"},
		{"recursion", []string{"1 + down", "2 + down"}, false, "2 ab 6 uu\n"},
		{"two functions", []string{"1 + down", "3 + down", "fmt.Println(s...)", "fmt.Print(s...)"}, false, "2ab9uu"},
		{"new import", []string{"return 0\n", "return int(time.Second)\n", "\"strings\"\n", "\"strings\"\n\t\"time\"\n"}, false, "2 ab 1000000003 uu\n"},
		{"new function", []string{"return 0\n", "return zero()\n", "type name", "func zero() int { return 5 }\n\ntype name"}, false, "2 ab 8 uu\n"},
		{"comment", []string{"// down calls itself.", "// down."}, true, ""},
		{"constant", []string{"two = 2", "two = 3"}, true, ""},
		{"signature", []string{"down(n int) int", "down(n int) (m int)"}, true, ""},
		{"parameter without a name", []string{"strings.Repeat(\"u\", two)", "strings.ToUpper(\"u\")"}, true, ""},
		{"function that is missing", []string{"func (n name) String() string { return string(n) }\n", "", "1 + down", "2 + down"}, true, ""},
		{"import not used", []string{"strings.Repeat(\"u\", two)", "\"u\""}, true, ""},
		{"import missing", []string{"\t\"strings\"\n", "", "1 + down", "2 + down"}, true, ""},
		{"new import not used", []string{"\"strings\"\n", "\"strings\"\n\t\"time\"\n", "1 + down", "2 + down"}, true, ""},
		{"no syntax", []string{"1 + down", "1 + + down("}, true, ""},
	}
	var mutants []mutant
	for i, tt := range tests {
		folder := t.TempDir()
		write(t, folder, map[string]string{"a/main.go": shapes, "b/main.go": strings.NewReplacer(tt.oldnew...).Replace(shapes)})
		cmd := exec.Command("git", "diff", "--no-index", "--no-prefix", "a", "b")
		cmd.Dir = folder
		diff, _ := cmd.Output() // a nonzero exit status means that the files differ
		mutants = append(mutants, mutant{name: fmt.Sprint("mutant", i), number: i + 1, diff: string(diff)})
	}
	b := &bench{root: root, temp: t.TempDir()}
	replace, err := b.merge(mutants)
	if err != nil {
		t.Fatal(err)
	}
	for path, merged := range replace {
		text, err := os.ReadFile(merged)
		if err != nil {
			t.Fatal(err)
		}
		write(t, root, map[string]string{filepath.Base(path): string(text)})
	}
	build := exec.Command("go", "build", "-o", "program")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(number int) string {
		cmd := exec.Command(filepath.Join(root, "program"))
		cmd.Env = append(os.Environ(), fmt.Sprint("MUTANT=", number))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("mutant %d: %v\n%s", number, err, out)
		}
		return string(out)
	}
	if got := run(0); got != "2 ab 3 uu\n" {
		t.Errorf("without a mutant it is another program: %q", got)
	}
	for i, tt := range tests {
		if mutants[i].alone != tt.alone {
			t.Errorf("%s: alone is %t", tt.name, mutants[i].alone)
		} else if !tt.alone {
			if got := run(mutants[i].number); got != tt.outputs {
				t.Errorf("%s: got %q, want %q", tt.name, got, tt.outputs)
			}
		}
	}
}

// TestHuntOfMany: mutants that share test binaries have the results that each would have alone,
// also beside mutants that do not compile, or do not compile together.
func TestHuntOfMany(t *testing.T) {
	root := t.TempDir()
	write(t, root, small)
	sum := func(becomes string) string { return diff(t, "return a + b", becomes) }
	fresh := func(is string) string {
		return diff(t, "return a + b", "return a + fresh(b)", "func Twice", "func fresh(b int) int { return "+is+" }\n\nfunc Twice")
	}
	mutants := []mutant{
		{name: "minus", diff: sum("return a - b")},
		{name: "type", diff: sum("return a + false")},
		{name: "twice", diff: diff(t, "a * 2", "a")},
		{name: "fresh", diff: fresh("0")},
		{name: "same", diff: sum("return b + a")},
		{name: "fresher", diff: fresh("-b")},
	}
	for i := range mutants {
		m := &mutants[i]
		m.file, m.breaks, m.tests = m.name+".patch", "it is broken", []string{"lock.TestSum"}
	}
	mutants[2].tests = []string{"lock.TestTwice"}
	var out bytes.Buffer
	err := hunt(t.Context(), bench{root: root, seeds: 9}, mutants, &out)
	for _, row := range []string{
		"| minus | it is broken | simulation (seed 3), lock.TestSum | 3 |\n",
		"| type | it is broken | **nothing** | more than 9 |\n",
		"| twice | it is broken | lock.TestTwice | more than 9 |\n",
		"| fresh | it is broken | simulation (seed 3), lock.TestSum | 3 |\n",
		"| same | it is broken | **nothing** | more than 9 |\n",
		"| fresher | it is broken | simulation (seed 3), lock.TestSum | 3 |\n",
		"\n4 of 6 mutants caught in ",
	} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("want %q:\n%s", row, &out)
		}
	}
	for _, want := range []string{"type: does not compile: ", "same: lock.TestSum does not notice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	for _, m := range mutants {
		if alone := m.name == "type" || strings.HasPrefix(m.name, "fresh"); m.alone != alone {
			t.Errorf("%s: alone is %t", m.name, m.alone)
		}
	}
}
