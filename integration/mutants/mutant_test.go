package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const room = `# Sums.

z: all sums are wrong
tests: lock.TestA lock/znode.TestB
wire: purge
in: lock.Sum
- a +
- b
+ a - b
- return
+ defer stop()
+ return
in: lock/znode.Name.Sum
- return 0

y-2: nothing is wrong
tests: lock.TestA
in: lock.Sum
- a + b
+ b + a
`

func TestLoad(t *testing.T) {
	want := []mutant{
		{name: "z", breaks: "all sums are wrong", tests: []string{"lock.TestA", "lock/znode.TestB"}, wire: "purge", at: "sum.txt:3", number: 1, edits: []edit{
			{"lock", "Sum", "a +\nb\n", "a - b\n"}, {"lock", "Sum", "return\n", "defer stop()\nreturn\n"}, {"lock/znode", "Name.Sum", "return 0\n", ""},
		}},
		{name: "y-2", breaks: "nothing is wrong", tests: []string{"lock.TestA"}, at: "sum.txt:16", number: 2, edits: []edit{{"lock", "Sum", "a + b\n", "b + a\n"}}},
	}
	root := t.TempDir()
	write(t, root, map[string]string{rooms + "/sum.txt": room})
	if got, err := load(root); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("loaded %+v, %v", got, err)
	}
	for _, tt := range []struct{ old, new, at string }{
		{"# Sums.", "Sums.", "sum.txt:1"},
		{"y-2: nothing is wrong", "y-2:", "sum.txt:16"},
		{"\ntests: lock.TestA\n", "\n", "sum.txt:16"},
		{"tests: lock.TestA\n", "tests: TestA\n", "sum.txt:16"},
		{"tests: lock.TestA\n", "tests: lock.Lock\n", "sum.txt:16"},
		{"tests: lock.TestA\n", "test: lock.TestA\n", "sum.txt:16"},
		{"in: lock.Sum\n- a + b\n+ b + a\n", "", "sum.txt:16"},
		{"- a + b\n", "", "sum.txt:16"},
		{"- return 0\n", "", "sum.txt:3"},
		{"wire: purge", "wire: ", "sum.txt:3"},
		{"in: lock.Sum\n- a +\n", "in: Sum\n- a +\n", "sum.txt:3"},
	} {
		write(t, root, map[string]string{rooms + "/sum.txt": strings.Replace(room, tt.old, tt.new, 1)})
		if _, err := load(root); err == nil || !strings.HasPrefix(err.Error(), tt.at+`: want the line "NAME: CLAUSE", `) {
			t.Errorf("%q for %q: error is %v", tt.new, tt.old, err)
		}
	}
	write(t, root, map[string]string{rooms + "/sum.txt": room, rooms + "/more.txt": room})
	if _, err := load(root); err == nil || err.Error() != "sum.txt:3: more.txt:3 has the name z too" {
		t.Errorf("two of a name: %v", err)
	}
}

func TestApply(t *testing.T) {
	const body = `{
	if n := f(a, // the first
		b); n > 0 { return "a  b" } // positive
	x = f(a, b)
	return x ; }`
	for _, tt := range []struct{ old, new, want, fails string }{
		{"if n := f(a, b); n > 0 {\n return \"a  b\"\n}", "g()", "{\n\tg() // positive", ""},
		{"n > 0", "n < 0", `n < 0 { return "a  b" }`, ""},
		{"x = f(a, b)", "", "positive\n\t\n\treturn", ""},
		{"return \"a b\"", "return", "", "not found in lock.Sum:\nreturn \"a b\""},
		{"f(a, b)", "f(b, a)", "", "found 2 times, not once, in lock.Sum:\nf(a, b)"},
		{"n > 0", "n\t> /* not */ 0", "", "changes nothing"},
	} {
		e := edit{"lock", "Sum", tt.old, tt.new}
		got, err := e.apply(body)
		if tt.fails == "" && (err != nil || !strings.Contains(got, tt.want)) || tt.fails != "" && (err == nil || err.Error() != tt.fails) {
			t.Errorf("%s: got %s, error %v", tt.old, got, err)
		}
	}
}

func TestRename(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, rooms, "sum.txt")
	write(t, root, map[string]string{rooms + "/sum.txt": room})
	rename := func(which, from, to string, want int, text string) {
		t.Helper()
		n, err := rename(root, regexp.MustCompile(which), from, to)
		got, _ := os.ReadFile(file)
		if n != want || err != nil || string(got) != text {
			t.Errorf("%s: %s to %s: %d lines changed, %v\n%s", which, from, to, n, err, got)
		}
	}
	rename("", "is", "was", 0, room)
	becomes := strings.Replace(strings.ReplaceAll(room, "Sum\n", "Total\n"), "TestA", "Test_A", 1)
	rename("", "Sum", "Total", 3, strings.ReplaceAll(room, "Sum\n", "Total\n"))
	rename("^z", "TestA", "Test_A", 1, becomes)
}
