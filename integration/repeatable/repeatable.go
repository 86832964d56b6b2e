// Package repeatable builds and runs Go programs so that each run is the same.
//
// A program with virtual time, as in a bubble of testing/synctest, and with seeded random numbers
// still has some randomness: the order of runnable goroutines, of the ready cases of a select, and
// of maps. A program that was built with the runtime of [Runtime] and runs with the environment of
// [Env] has a fixed order of all of these.
package repeatable

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Env returns the environment variables of the program: one processor, no preemption by signals,
// and no garbage collection except on request.
func Env() []string {
	return []string{"GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", "GOGC=off"}
}

// Change is a text in a file of the Go standard library, and its replacement.
type Change struct{ File, Old, New string }

const randomOfRuntime = "//go:linkname runtime_rand runtime.rand\nfunc runtime_rand() uint64\n"

// sequence is source text that gives a package of random numbers a fixed sequence.
const sequence = `var drawn uint64

func runtime_rand() uint64 {
	drawn += 0x9e3779b97f4a7c15
	x := (drawn ^ drawn>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
`

// byAge is source text of package context.
const byAge = `var born atomic.Uint64

func byAge(children map[canceler]uint64) (sorted []canceler) {
	for child, at := range children {
		i := len(sorted)
		sorted = append(sorted, child)
		for ; i > 0 && children[sorted[i-1]] > at; i-- {
			sorted[i] = sorted[i-1]
		}
		sorted[i] = child
	}
	return sorted
}

`

// changes removes the randomness from the standard library.
var changes = []Change{
	// These changes fix the order of maps and of a select's cases, and the hash of map keys.
	{"runtime/rand.go", "func rand() uint64 {\n", "func rand() uint64 {\n\tif true {\n\t\treturn 0x9e3779b97f4a7c15\n\t}\n"},
	{"runtime/rand.go", "func cheaprand() uint32 {\n", "func cheaprand() uint32 {\n\tif true {\n\t\treturn 0x9e3779b9\n\t}\n"},
	{"runtime/rand.go", "seed[i%len(seed)] ^= c\n", "seed[i%len(seed)] ^= c & 0\n"},
	// A goroutine runs until it waits, however long that takes.
	{"runtime/proc.go", "const forcePreemptNS = 10 * 1000 * 1000 ", "const forcePreemptNS = 3600 * 1000 * 1000 * 1000 "},
	// The children of a context end in the order of their creation. A map of them has the order of
	// their addresses, which differ from run to run.
	{"context/context.go", "	children map[canceler]struct{} //", "	children map[canceler]uint64 //"},
	{"context/context.go", "make(map[canceler]struct{})", "make(map[canceler]uint64)"},
	{"context/context.go", "p.children[child] = struct{}{}", "p.children[child] = born.Add(1)"},
	{"context/context.go", "for child := range c.children {", "for _, child := range byAge(c.children) {"},
	{"context/context.go", "// A cancelCtx can be canceled.", byAge + "// A cancelCtx can be canceled."},
	// These packages get random numbers from the runtime. The numbers must differ from each other.
	{"math/rand/rand.go", randomOfRuntime, sequence},
	{"math/rand/v2/rand.go", randomOfRuntime, sequence},
	{"os/tempfile.go", randomOfRuntime, "var drawn uint64\n\nfunc runtime_rand() uint64 {\n\tdrawn++\n\treturn uint64(Getpid())<<12 + drawn\n}\n"},
}

// Runtime is [Changed] with the changes that make a program repeatable.
func Runtime(folder string) (replace map[string]string, err error) { return Changed(folder, changes) }

// Changed writes the changed files of the standard library to a folder. It returns the replacement
// of each file, for [Overlay]. It fails if the version of Go is unknown, or if go downloaded the
// toolchain as a module, because go allows no replacement there.
func Changed(folder string, changes []Change) (replace map[string]string, err error) {
	env, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	goroot, modules, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	if strings.HasPrefix(goroot, modules+"/") {
		return nil, fmt.Errorf("this version of Go was downloaded as a module, %s, and cannot be changed; install it", filepath.Base(goroot))
	}
	texts := map[string]string{}
	for _, c := range changes {
		path := filepath.Join(goroot, "src", c.File)
		if texts[path] == "" {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], c.Old); n != 1 {
			return nil, fmt.Errorf("%q stands %d times, not once, in %s of this version of Go", c.Old, n, path)
		}
		texts[path] = strings.Replace(texts[path], c.Old, c.New, 1)
	}
	replace = map[string]string{}
	for path, text := range texts {
		changed := filepath.Join(folder, fmt.Sprintf("%d_%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return nil, err
		}
		replace[path] = changed
	}
	return replace, nil
}

// Overlay writes the file for go's -overlay flag to a folder, and returns its path. replace has the
// replacement of each file, by path.
func Overlay(folder string, replace map[string]string) (string, error) {
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// Build runs a go command that builds with the replacements: build or test, with its arguments. It
// writes the file for -overlay to a folder.
func Build(ctx context.Context, folder string, replace map[string]string, command string, args ...string) error {
	overlay, err := Overlay(folder, replace)
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", append([]string{command, "-overlay", overlay}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %s %s: %w\n%s", command, strings.Join(args, " "), err, out)
	}
	return nil
}
