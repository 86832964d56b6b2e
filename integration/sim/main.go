// Sim runs the simulation of package lock, many histories of it, so that each can
// be had again from its seed alone:
//
//	SEED=1 SEEDS=1000 make sim
//
// The histories are those of TestSimulation in lock/sim_test.go; a seed decides on
// every delay, fault and choice in them. What is left to chance in a Go program is
// the order of goroutines that can run at the same time, of the ready cases of a
// select, and of maps. So the test is built with a Go runtime whose random numbers
// are constant and which never takes a goroutine's turn away, and runs with one
// processor and without garbage collection inside a history. "go test ./lock" has
// the usual runtime, and a few histories that never come twice.
//
// With TRACE, the name of a folder, all that happens in each history is left there.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// chunk is how many histories one process runs.
const chunk = 25

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	first, err := number("SEED", 1)
	if err != nil {
		return err
	}
	seeds, err := number("SEEDS", 1000)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "holdfast-sim-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	test, err := build(ctx, temp)
	if err != nil {
		return err
	}

	begun := time.Now()
	var sum tally
	var mu sync.Mutex
	var failed error
	chunks := make(chan [2]uint64)
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for c := range chunks {
				out, err := histories(ctx, test, c[0], c[1])
				mu.Lock()
				sum.add(out)
				if err != nil && failed == nil {
					failed = err
					fmt.Print(out)
				}
				mu.Unlock()
			}
		})
	}
	for at := first; at < first+seeds; at += chunk {
		mu.Lock()
		over := failed != nil || ctx.Err() != nil
		mu.Unlock()
		if over {
			break
		}
		chunks <- [2]uint64{at, min(chunk, first+seeds-at)}
	}
	close(chunks)
	workers.Wait()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case failed != nil:
		return fmt.Errorf("a promise was broken; SEED=n SEEDS=1 make sim runs the history of seed n again: %w", failed)
	}
	took := time.Since(begun)
	fmt.Printf("%d histories, seeds %d to %d, in %v, %.0f a minute: all promises kept.\n",
		seeds, first, first+seeds-1, took.Round(time.Second), float64(seeds)/took.Minutes())
	fmt.Println("In them:", &sum)
	return nil
}

func number(name string, otherwise uint64) (uint64, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s=%q: must be a number from 1", name, text)
	}
	return n, nil
}

// histories runs the histories of some seeds in a process of their own, and returns
// what it printed.
func histories(ctx context.Context, test string, first, seeds uint64) (string, error) {
	cmd := exec.CommandContext(ctx, test, "-test.run", "^TestSimulation$", "-test.v", "-test.timeout", "20m")
	cmd.Dir = "lock"
	cmd.Env = append(os.Environ(), fmt.Sprint("SEED=", first), fmt.Sprint("SEEDS=", seeds),
		"GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// build builds the test with the changed runtime, and returns the file.
func build(ctx context.Context, temp string) (string, error) {
	test := filepath.Join(temp, "lock.test")
	args := []string{"test", "-c", "-o", test}
	overlay, err := repeatable(temp)
	if err != nil {
		fmt.Println("sim: histories may differ from run to run:", err)
	} else {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./lock")...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the test: %w", err)
	}
	return test, nil
}

// change is a text in the Go runtime, and what takes its place.
type change struct{ file, old, new string }

// changes take chance out of the runtime.
var changes = []change{
	// The order of maps and of a select's cases, and the hash of map keys.
	{"rand.go", "func rand() uint64 {\n", "func rand() uint64 {\n\tif true {\n\t\treturn 0x9e3779b97f4a7c15\n\t}\n"},
	{"rand.go", "func cheaprand() uint32 {\n", "func cheaprand() uint32 {\n\tif true {\n\t\treturn 0x9e3779b9\n\t}\n"},
	{"rand.go", "seed[i%len(seed)] ^= c\n", "seed[i%len(seed)] ^= c & 0\n"},
	// A goroutine's turn ends when it waits, not when it took long.
	{"proc.go", "const forcePreemptNS = 10 * 1000 * 1000 ", "const forcePreemptNS = 3600 * 1000 * 1000 * 1000 "},
}

// repeatable writes the changed files of the Go runtime into the folder, and
// returns the file for go's -overlay that tells of them.
func repeatable(temp string) (string, error) {
	env, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	goroot, modules, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	if strings.HasPrefix(goroot, modules+"/") {
		return "", fmt.Errorf("this version of Go was downloaded as a module, %s, and cannot be changed; install it", filepath.Base(goroot))
	}
	texts := map[string]string{}
	for _, c := range changes {
		path := filepath.Join(goroot, "src", "runtime", c.file)
		if texts[path] == "" {
			text, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], c.old); n != 1 {
			return "", fmt.Errorf("%q stands %d times, not once, in %s of this version of Go", c.old, n, path)
		}
		texts[path] = strings.Replace(texts[path], c.old, c.new, 1)
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for path, text := range texts {
		changed := filepath.Join(temp, filepath.Base(path))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[path] = changed
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(temp, "overlay.json")
	return file, os.WriteFile(file, data, 0o600)
}

// tally sums up what the processes tell: numbers of things.
type tally struct {
	things []string // in the order of their first mention
	sums   map[string]int
}

// add takes the line "seeds 1 to 25: 12 grants, 3 crashes" from what a process
// printed.
func (t *tally) add(out string) {
	if t.sums == nil {
		t.sums = map[string]int{}
	}
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		_, line, _ := strings.Cut(s.Text(), ": seeds ")
		_, counts, _ := strings.Cut(line, ": ")
		for count := range strings.SplitSeq(counts, ", ") {
			number, thing, _ := strings.Cut(count, " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				continue // not that line
			}
			if _, known := t.sums[thing]; !known {
				t.things = append(t.things, thing)
			}
			t.sums[thing] += n
		}
	}
}

func (t *tally) String() string {
	var all []string
	for _, thing := range t.things {
		all = append(all, fmt.Sprint(t.sums[thing], " ", thing))
	}
	return strings.Join(all, ", ")
}
