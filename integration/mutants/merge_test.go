package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-io/holdfast/integration/repeatable"
)

// shapes is a program with functions of all shapes.
const shapes = `package main // shapes

import (
	"fmt"
	"strings"
)

type list[E any] struct{ all []E }

func (l *list[E]) add(all ...E) (n int) { l.all = append(l.all, all...); return len(l.all) }

func twice[A, B fmt.Stringer](a A, b B) string { return a.String() + b.String() }

func show(s ...any) { fmt.Println(s...) }

// down calls itself.
func down(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + down(n-1)
}

func unnamed(int, ...string) string { return strings.Repeat("u", 2) }

func blank(_, m int, _ bool) int { return m }

type name string

func (n name) String() string { return string(n) }

func (name) last() string { return "." }

func main() {
	var l list[int]
	show(l.add(1, 2), twice(name("a"), name("b")), down(3), unnamed(1, "x"), blank(7, 8, true), name("c").last())
}
`

// TestMerge: one program has all mutants, and behaves like the selected one.
func TestMerge(t *testing.T) {
	root, folder := t.TempDir(), t.TempDir()
	write(t, root, map[string]string{"go.mod": "module example.test\n\ngo 1.25\n", "p/main.go": shapes})
	tests := []struct{ name, function, old, new, outputs string }{
		{"variadic method of a generic type", "list.add", "return len(l.all)", "return -len(l.all)", "-2 ab 3 uu 8 .\n"},
		{"generic function", "twice", "a.String() + b.String()", "b.String() + a.String()", "2 ba 3 uu 8 .\n"},
		{"another of it", "twice", "a.String() + b.String()", "a.String()", "2 a 3 uu 8 .\n"},
		{"without results", "show", "fmt.Println(s...)", "fmt.Print(s...)", "2ab3uu8."},
		{"recursion", "down", "1 + down", "2 + down", "2 ab 6 uu 8 .\n"},
		{"parameters without names, last use of an import", "unnamed", `strings.Repeat("u", 2)`, `"v"`, "2 ab 3 v 8 .\n"},
		{"blank parameters", "blank", "return m", "return -m", "2 ab 3 uu -8 .\n"},
		{"receiver without a name", "name.last", `"."`, `"!"`, "2 ab 3 uu 8 !\n"},
		{"main", "main", "down(3)", "down(2)", "2 ab 2 uu 8 .\n"},
	}
	var mutants []mutant
	for i, tt := range tests {
		mutants = append(mutants, mutant{name: fmt.Sprint("mutant", i), number: i + 1, edits: []edit{{"p", tt.function, tt.old, tt.new}}})
	}
	replace, err := merge(root, folder, mutants)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := repeatable.Overlay(folder, replace)
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-o", "program", "./p")
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
	if got := run(0); got != "2 ab 3 uu 8 .\n" {
		t.Errorf("without a mutant it is another program: %q", got)
	}
	for i, tt := range tests {
		if got := run(i + 1); got != tt.outputs {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.outputs)
		}
	}
}
