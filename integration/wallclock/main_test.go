package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestCheck: the calls that are reported in the files of testdata, also in helpers of tests, are those in
// lines that end with "// want", or with a marker that has no reason.
func TestCheck(t *testing.T) {
	var want []string
	for _, path := range []string{"testdata/support.go", "testdata/virtual_test.go", "testdata/waits_test.go"} {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(source), "\n") {
			if line = strings.TrimSpace(line); strings.HasSuffix(line, "// want") || strings.HasSuffix(line, "wall clock:") {
				want = append(want, fmt.Sprintf("%s:%d", path, i+1))
			}
		}
	}
	lines, err := check("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range lines {
		at, _, _ := strings.Cut(line, ": ")
		got = append(got, at)
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("reported:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if _, err := check(t.TempDir()); err == nil {
		t.Error("a folder without Go files passes")
	}
}
