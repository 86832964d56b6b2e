package main

import (
	"os"
	"path/filepath"
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
