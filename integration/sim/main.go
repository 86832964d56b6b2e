// Sim runs many histories of the simulation of package lock. Each history is repeatable from its
// seed alone:
//
//	SEED=1 SEEDS=1000 make sim
//
// The histories are those of TestSimulation in lock/internal/sim. A seed determines every operation,
// delay and fault, and package repeatable removes all other randomness. "go test" uses the unchanged
// Go runtime, and runs a few histories that are not repeatable.
//
// SEED is the first seed, 1 by default. SEEDS is the number of histories, 1,000 by default. TRACE
// is a folder to which the events of each history are written. KIND selects one kind of histories.
// Without KIND, a run of at least 1,000 histories also fails if one of the required events happened
// in none of them.
//
// If a history fails, it is written to a file, one operation or fault a line. Then lines are left
// out for as long as SHRINK, 2m by default, while it fails in the same way. "HISTORY=file make sim"
// runs the history in a file.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/repeatable"
)

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

	failed, err := os.MkdirTemp("", "holdfast-sim-failed-")
	if err != nil {
		return err
	}
	defer os.Remove(failed) // if it is empty
	for name, otherwise := range map[string]string{"FAILED": failed, "SHRINK": "2m"} {
		if os.Getenv(name) == "" {
			if err := os.Setenv(name, otherwise); err != nil {
				return err
			}
		}
	}
	if os.Getenv("HISTORY") != "" {
		out, err := history(ctx, test, first)
		fmt.Print(out)
		return err
	}

	begun := time.Now()
	sum, err := histories(ctx, test, first, seeds)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return fmt.Errorf("a promise was broken; SEED=n SEEDS=1 make sim runs the history of seed n again: %w", err)
	}
	if missing := sum.missing(int(seeds)); seeds >= 1000 && os.Getenv("KIND") == "" && len(missing) > 0 {
		return fmt.Errorf("what these histories should show never happened in them: %s", strings.Join(missing, ", "))
	}
	took := time.Since(begun)
	fmt.Printf("%d histories, seeds %d to %d, in %v, %.0f a minute: all promises kept.\n",
		seeds, first, first+seeds-1, took.Round(time.Second), float64(seeds)/took.Minutes())
	fmt.Println("In them:", sum)
	fmt.Println("The rarest:", sum.rarest())
	return nil
}

// histories runs the histories in parallel, one on each processor. At the first failure it prints
// the output of that history and stops. It also stops when ctx ends. It returns the sums of the
// counts that the histories print.
func histories(ctx context.Context, test string, first, seeds uint64) (tally, error) {
	sum := tally{}
	var mu sync.Mutex
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, runtime.NumCPU())
	var running sync.WaitGroup
	for seed := first; seed < first+seeds && ctx.Err() == nil; seed++ {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			out, err := history(ctx, test, seed)
			mu.Lock()
			defer mu.Unlock()
			sum.add(out)
			if err != nil && failed == nil {
				failed = err
				fmt.Print(out)
				cancel()
			}
		})
	}
	running.Wait()
	return sum, failed
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

// history runs the history of a seed in a process of its own, so that it does not depend on other
// histories, and returns the output.
func history(ctx context.Context, test string, seed uint64) (string, error) {
	cmd := exec.CommandContext(ctx, test, "-test.run", "^TestSimulation$", "-test.v", "-test.timeout", "30m")
	cmd.Env = append(os.Environ(), append(repeatable.Env(), fmt.Sprint("SEED=", seed), "SEEDS=1")...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// build builds the test and returns its path. If the runtime cannot be changed, build prints a
// warning and uses the unchanged one.
func build(ctx context.Context, temp string) (string, error) {
	test := filepath.Join(temp, "sim.test")
	replace, err := repeatable.Runtime(temp)
	if err != nil {
		fmt.Println("sim: histories may differ from run to run:", err)
	}
	return test, repeatable.Build(ctx, temp, replace, "test", "-c", "-o", test, "./lock/internal/sim")
}

// tally maps an event, such as "grants", to the number of times that it happened in all processes.
type tally map[string]int

// add adds the counts in the output of a process, whose lines are as "seeds 7 to 7: 12 grants, 3
// crashes".
func (t tally) add(out string) {
	for line := range strings.Lines(out) {
		_, line, _ := strings.Cut(strings.TrimSpace(line), ": seeds ")
		_, counts, _ := strings.Cut(line, ": ")
		for count := range strings.SplitSeq(counts, ", ") {
			number, thing, _ := strings.Cut(count, " ")
			if n, err := strconv.Atoi(number); err == nil { // no number: another line
				t[thing] += n
			}
		}
	}
}

// rare is an event that happens about four times in 1,000 histories. Only a run of 5,000 histories
// or more must have it.
const rare = "holds of data that was lost"

// missing returns the events that never happened, although they must happen in that number of
// histories.
func (t tally) missing(histories int) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t)), func(thing string) bool {
		return t[thing] > 0 || thing == rare && histories < 5000
	})
}

func (t tally) String() string { return t.list(slices.Sorted(maps.Keys(t))) }

// rarest returns the twelve events that happened least often.
func (t tally) rarest() string {
	things := slices.SortedFunc(maps.Keys(t), func(a, b string) int { return cmp.Or(t[a]-t[b], strings.Compare(a, b)) })
	return t.list(things[:min(12, len(things))])
}

func (t tally) list(things []string) string {
	var all []string
	for _, thing := range things {
		all = append(all, fmt.Sprint(t[thing], " ", thing))
	}
	return strings.Join(all, ", ")
}
