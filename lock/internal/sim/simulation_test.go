// The histories of seeds, or the one in a file.

package sim

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast/lock/internal/bubble"
)

// TestSimulation: in random histories of many clients under random faults, in virtual time, the
// promises of package lock are kept. SEEDS is the number of histories, SEED the first seed, and
// KIND selects one kind (see kinds). HISTORY is a file with one history to run instead; "make sim"
// repeats a history exactly, while go test runs runnable goroutines in any order. TRACE is a folder
// for the traces. FAILED is a folder for failed histories, and what is left of them after SHRINK,
// a duration.
//
// A history has two to six processes, with clocks that are up to a day off and up to 300 ppm wrong.
// Each has one to three clients, with their own connections or a shared one. Their goroutines lock,
// try, extend, reenter, cancel and unlock a few names, beside contenders of other libraries. The
// faults depend on the kind. The tally counts the events of all histories. If an expected event is
// missing in 1,000 or more histories of all kinds, the test fails.
func TestSimulation(t *testing.T) {
	if file := os.Getenv("HISTORY"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h, err := parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		got := h.test(t)
		t.Logf("seeds %d to %d: %s", h.seed, h.seed, got)
		return
	}
	first, seeds := bubble.Env(t, "SEED", 1), bubble.Env(t, "SEEDS", 20)
	only := kind(os.Getenv("KIND"))
	next := make(chan uint64)
	go func() {
		defer close(next)
		for seed := first; seed < first+seeds; seed++ {
			next <- seed
		}
	}()
	total := tally{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				if t.Failed() {
					continue
				}
				runtime.GC() // not inside a history, if GOGC=off
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
					got := draw(seed, only).test(t)
					mu.Lock()
					defer mu.Unlock()
					total.add(got)
				})
			}
		})
	}
	wg.Wait()
	t.Logf("seeds %d to %d: %s", first, first+seeds-1, total)
	if missing := total.missing(int(seeds)); seeds >= 1000 && only == "" && len(missing) > 0 && !t.Failed() {
		t.Errorf("what these histories should show never happened in them: %q", missing)
	}
}

// test runs the history. If a promise is broken, it fails t, and writes the history to a file.
func (h history) test(t *testing.T) tally {
	got, broken := h.run(t)
	if broken.text != "" {
		t.Errorf("seed %d, kind %s: %s", h.seed, h.kind, broken.text)
		t.Logf("the last of the trace of seed %d:\n%s", h.seed, broken.trace)
		h.keep(t, broken)
	}
	return got
}
