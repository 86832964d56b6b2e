// Mutants breaks the lock protocol on purpose, in one way after the other, and checks that the
// tests notice:
//
//	mutants [-run REGEXP] [-seeds N] [-audit]
//	mutants [-run REGEXP] -rename OLD=NEW
//
// README.md explains the mutants, which the text files in the folder rooms have. The checkout stays
// unchanged. One set of test binaries has all mutants, and each run selects one. First the unchanged
// code must pass. Then, for each mutant, TestSimulation of lock/internal/sim runs with up to N seeds,
// 30 by default, until a seed fails. The tests that the mutant names run too, and each must fail. A
// simulation that panics or does not end has noticed nothing; a named test must not do so.
//
// With -audit only the mutants run that have a line "wire: RULE", and only violations count that the
// audit of the servers' log finds (package lock/history/audit): with the named tests of the packages
// lock, lock/schedule and reaper, or else with the simulation. The audit must notice 90 % of them.
//
// With -rename it replaces an identifier in the functions, the code and the tests of the mutants.
//
// At the end, a table in Markdown shows what caught each mutant. The exit status is 1 if a mutant
// survived or was wrong, and 2 for bad usage.
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
	renames := flags.String("rename", "", "replace an identifier in the mutants: `OLD=NEW`")
	if flags.Parse(args) != nil {
		return 2
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	b := bench{root: strings.TrimSpace(string(root)), seeds: *seeds, audit: *audit, replace: map[string]string{}}
	var mutants []mutant
	if err == nil {
		mutants, err = load(b.root)
	}
	if err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 1
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !which.MatchString(m.name) || *audit && m.wire == "" })
	from, to, renaming := strings.Cut(*renames, "=")
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *renames != "" && !renaming:
		err = fmt.Errorf("-rename %s: want OLD=NEW", *renames)
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

	if renaming {
		var changed int
		if changed, err = rename(b.root, which, from, to); err == nil {
			fmt.Fprintf(out, "%d lines changed\n", changed)
		}
	} else {
		err = hunt(ctx, b, mutants, out)
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
func hunt(ctx context.Context, b bench, mutants []mutant, out io.Writer) (err error) {
	if b.temp, err = os.MkdirTemp("", "mutants"); err != nil {
		return err
	}
	defer os.RemoveAll(b.temp)
	if b.replace, err = repeatable.Runtime(b.temp); err != nil {
		fmt.Fprintln(out, "the seeds needed may differ from run to run:", err)
		b.replace = map[string]string{}
	}

	begun := time.Now()
	fmt.Fprintf(out, "the code as it is: %d seeds, and all tests that are named\n", b.seeds)
	if err := b.baseline(ctx, mutants); ctx.Err() != nil {
		return errInterrupted
	} else if err != nil {
		return fmt.Errorf("the code as it is must pass before it can be broken: %w", err)
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
func (b *bench) tryAll(ctx context.Context, mutants []mutant, out io.Writer) []result {
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
			failed = append(failed, fmt.Errorf("%s: %s: %w", m.at, m.name, r.err))
		case by == "":
			failed = append(failed, fmt.Errorf("%s: %s survived: nothing notices that %s", m.at, m.name, m.breaks))
		default:
			caught++
		}
		if by == "" {
			by = "**nothing**"
		}
		needed := fmt.Sprintf("more than %d", b.seeds)
		switch {
		case r.seed != "":
			needed = r.seed
		case b.seeds == 0, b.audit && len(r.tests) > 0:
			needed = "not tried"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", m.name, m.breaks, by, needed)
	}
	return caught, errors.Join(failed...)
}
