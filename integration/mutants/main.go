// Mutants breaks the lock protocol on purpose, in one way after the other, and checks that the
// tests notice:
//
//	mutants [-run REGEXP] [-seeds N] [-audit]
//
// Each mutant is a patch of the library's source, in a folder named after a part of the protocol.
// patches/README.md shows a patch and explains how to write another. Go's -overlay flag compiles
// the patched files, so the checkout stays unchanged. The mutants that change only functions share
// the test binaries. The binaries have all their functions, and each run selects one mutant. Each
// other mutant is compiled by itself. Then lock's TestSimulation runs with up to N seeds, until a
// seed fails. N is 30 by default; with 0 the simulation does not run. The tests that the patch file
// names run too, and each must fail. A mutant is caught if an assertion of the simulation or of a
// test failed. A simulation that panics or does not end has noticed nothing.
//
// Before that, the unchanged code must pass the same tests. A patch is wrong if it does not apply or
// does not compile, or if a named test passes, panics or does not end.
//
// With -audit only the mutants run whose patch files have a line "wire: RULE": they write what the
// protocol does not permit. Only violations that the audit of the servers' log finds count (package
// lock/history/audit). The audit first runs with the named tests of the packages lock,
// lock/schedule and reaper. If it finds nothing there, it runs with the simulation. The audit must
// notice 90 % of the mutants.
//
// At the end, a table in Markdown shows what caught each mutant. The exit status is 1 if a mutant
// survived or a patch was wrong, and 2 for bad usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/repeatable"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func command(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(errs)
	which := regexp.MustCompile("")
	flags.Func("run", "only the mutants whose name matches `REGEXP`", func(value string) (err error) {
		which, err = regexp.Compile(value)
		return err
	})
	seeds := flags.Int("seeds", 30, "how many histories the simulation gets to catch a mutant: `N`; with 0 only the named tests run")
	audit := flags.Bool("audit", false, "only mutants that break the protocol on the wire, and see what the audit alone notices")
	if flags.Parse(args) != nil {
		return 2
	}
	mutants, err := load(patches)
	if err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 1
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !which.MatchString(m.name) || *audit && m.wire == "" })
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *audit && *seeds == 0:
		err = errors.New("-audit needs the simulation: -seeds must not be 0")
	case *seeds < 0:
		err = fmt.Errorf("-seeds %d: must not be negative", *seeds)
	case len(mutants) == 0:
		err = fmt.Errorf("-run %s: no mutant has such a name", which)
	}
	if err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 2
	}

	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err == nil {
		err = hunt(ctx, bench{root: strings.TrimSpace(string(root)), seeds: *seeds, audit: *audit}, mutants, out)
	}
	if err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 1
	}
	return 0
}

var errInterrupted = errors.New("interrupted")

// hunt tests the mutants and prints the results. It fails unless all were caught, or nine of ten if
// only the audit counts.
func hunt(ctx context.Context, b bench, mutants []mutant, out io.Writer) error {
	temp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	b.temp = temp
	if b.runtime, err = repeatable.Runtime(temp); err != nil {
		fmt.Fprintln(out, "the seeds needed may differ from run to run:", err)
	}

	begun := time.Now()
	fmt.Fprintf(out, "the code as it is: %d seeds, and all tests that are named\n", b.seeds)
	if err := b.baseline(ctx, mutants); ctx.Err() != nil {
		return errInterrupted
	} else if err != nil {
		return fmt.Errorf("the code as it is must pass before it can be broken: %w", err)
	}

	for _, m := range mutants {
		if m.alone {
			fmt.Fprintf(out, "%s is compiled by itself\n", m.name)
		}
	}
	results := b.tryAll(ctx, mutants, out)
	if ctx.Err() != nil {
		return errInterrupted
	}
	caught, err := printTable(out, b, mutants, results)
	fmt.Fprintf(out, "\n%d of %d mutants caught in %v\n", caught, len(mutants), time.Since(begun).Round(time.Second))
	if b.audit && caught*10 >= len(mutants)*9 {
		return nil
	}
	return err
}

// tryAll tests the mutants, two at a time, and prints each result.
func (b bench) tryAll(ctx context.Context, mutants []mutant, out io.Writer) []result {
	results := make([]result, len(mutants))
	var wg sync.WaitGroup
	var printing sync.Mutex
	done := 0
	slots := make(chan struct{}, min(2, runtime.NumCPU()))
	for i, m := range mutants {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = b.try(ctx, m)
			printing.Lock()
			defer printing.Unlock()
			done++
			fmt.Fprintf(out, "%2d/%d  %s: %s\n", done, len(mutants), m.name, results[i])
		})
	}
	wg.Wait()
	return results
}

// printTable prints the results, and returns how many mutants were caught. The error describes the
// mutants that were not caught.
func printTable(out io.Writer, b bench, mutants []mutant, results []result) (caught int, err error) {
	seeds := b.seeds
	fmt.Fprintf(out, "\n| mutant | what is broken | caught by | seeds needed |\n|---|---|---|---|\n")
	var failed []error
	for i, m := range mutants {
		r := results[i]
		by := strings.Join(r.caughtBy(), ", ")
		if found := auditRule.FindStringSubmatch(r.says); b.audit && found != nil {
			by = "audit: " + found[1]
		}
		switch {
		case r.err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", m.name, r.err))
		case by == "":
			failed = append(failed, fmt.Errorf("%s survived: nothing notices that %s", m.name, m.breaks))
		default:
			caught++
		}
		if by == "" {
			by = "**nothing**"
		}
		needed := fmt.Sprintf("more than %d", seeds)
		switch {
		case r.seed != "":
			needed = r.seed
		case seeds == 0, b.audit && len(r.tests) > 0:
			needed = "not tried"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", m.name, m.breaks, by, needed)
	}
	return caught, errors.Join(failed...)
}
