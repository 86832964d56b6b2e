// Wallclock lists the tests that wait for a wall clock, for make lint:
//
//	wallclock [FOLDER]
//
// A busy machine makes such tests fail or take long. A test awaits an event, or runs in virtual time
// (testing/synctest). Wallclock reads the test files below the folder, and reports each call of
// time.Sleep, time.After, context.WithTimeout and the like, and each comparison with time.Since,
// that can run in real time, except
//
//   - limits of a minute or more, which only a failure reaches,
//   - the pauses of a loop that asks again, of at most 100 ms,
//   - calls with a comment that says why an event cannot be awaited, in their line or the line above:
//
// wall clock: REASON
//
// Code runs in virtual time if it is in a function literal that is passed to synctest.Test, or to a
// function that passes it on; or if one of its parameters has a type that only such literals take.
// Wallclock knows names, no types: it takes functions of the same name in one folder for one.
// Examples are not judged: they show what callers do.
//
// The exit status is 1 if there are such calls.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	found, err := check(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "wallclock:", err)
		os.Exit(2)
	}
	for _, line := range found {
		fmt.Println(line)
	}
	if len(found) > 0 {
		fmt.Printf("%d waits for a wall clock in tests: await an event, use testing/synctest, or say why in a comment \"%s REASON\"\n", len(found), marker)
		os.Exit(1)
	}
}

// check returns a line for each call below the root that is to be reported.
func check(root string) ([]string, error) {
	folders, tested := map[string][]string{}, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			folder := filepath.Dir(path)
			folders[folder] = append(folders[folder], path)
			tested[folder] = tested[folder] || isTest(path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(tested) == 0 {
		return nil, fmt.Errorf("no Go files in %s", root)
	}
	var found []string
	for folder, has := range tested {
		if !has {
			continue
		}
		lines, err := checkFolder(folders[folder])
		if err != nil {
			return nil, err
		}
		found = append(found, lines...)
	}
	slices.Sort(found)
	return found, nil
}

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }
