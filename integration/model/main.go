// Model checks a model of the lock protocol, holdfast.pml, with spin: that what the
// protocol promises holds in every state that the model can reach, and that spin
// finds the fault of each variant that is wrong on purpose.
//
//	model          checks all, and prints a table
//	model NAME     checks one; if spin refutes it, prints the steps that show it
//
// Spin is installed if need be and allowed; see package zkserver. The exit status
// is 0 if all is as it should be.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

//go:embed holdfast.pml
var source []byte

const sourceFile = "holdfast.pml"

// Properties, by the names that the model has for them.
const (
	exclusion = "mutual_exclusion"
	rising    = "rising_token"
	nothing   = "nothing_left"
	served    = "served"
)

// check is a variant of the model, and what spin must say of it.
type check struct {
	name string
	size string // and what may go wrong, for people
	defs string // macros of the model
	// refutes is the property that spin must refute; "" if it must verify all.
	refutes string
	// progress checks that who waits is served, and not the assertions alone.
	progress bool
	// whole says that the variant has all steps of the right protocol. Each step must
	// be reached by one such check.
	whole bool
}

// right are the checks of the right protocol, the longest first.
var right = []check{
	{name: "served-three", size: "3 contenders, one turn each; two may die, none is paused", defs: "-DN=3 -DONCE -DPROGRESS -DPROMPT -DCRASHES=1 -DDRIFT=0", progress: true},
	{name: "exclusive-three", size: "3 contenders, one turn each; clocks do not drift", defs: "-DN=3 -DONCE -DDRIFT=0"},
	{name: "exclusive-late", size: "2 contenders, and lost creates are applied late; clocks do not drift", defs: "-DN=2 -DLATE=1 -DDRIFT=0", whole: true},
	{name: "served", size: "2 contenders, all faults but late creates, then none", defs: "-DN=2 -DPROGRESS -DCRASHES=1 -DFLAPS=1 -DDRIFT=0", progress: true},
	{name: "exclusive-sessions", size: "2 contenders, and new sessions begin", defs: "-DN=2 -DFLAPS=1", whole: true},
	{name: "exclusive-crashes", size: "2 contenders, and processes die", defs: "-DN=2 -DCRASHES=1", whole: true},
	{name: "exclusive", size: "2 contenders, clocks drift, replies are lost, waiters quit", defs: "-DN=2", whole: true},
}

// wrong are the variants that are wrong on purpose.
var wrong = []check{
	{name: "purge-any-version", size: "a purge deletes whatever version is there", defs: "-DN=3 -DONCE -DDRIFT=0 -DQUITS=0 -DNO_VERSION", refutes: exclusion},
	{name: "purge-without-grace", size: "expiry is judged without the grace", defs: "-DN=2 -DNO_GRACE", refutes: exclusion},
	{name: "judge-by-own-clock", size: "expiry is judged by the client's wall clock", defs: "-DN=2 -DOWN_CLOCK", refutes: exclusion},
	{name: "clock-off-by-more", size: "the leader's clock is displaced by more than the grace", defs: "-DN=2 -DDISP=2", refutes: exclusion},
	{name: "no-margin", size: "the holder does not allow for the error of its clock", defs: "-DN=2 -DNO_MARGIN", refutes: exclusion},
	{name: "lease-from-reply", size: "a lease counts from the reply, not from the request", defs: "-DN=2 -DFROM_REPLY", refutes: exclusion},
	{name: "lease-from-grant", size: "a waiter enters without looking at its own lease", defs: "-DN=2 -DFROM_GRANT", refutes: exclusion},
	{name: "validity-remembered", size: "after a pause the holder does not look at the clock again", defs: "-DN=2 -DFLAG", refutes: exclusion},
	{name: "unsettled-read", size: "a new session's reads are believed before a write", defs: "-DN=2 -DUNSETTLED -DFLAPS=1", refutes: exclusion},
	{name: "token-from-sequence", size: "the fencing token is the entry's sequence number", defs: "-DN=2 -DBY_SEQUENCE", refutes: rising},
	{name: "create-again-leaves", size: "a lost create is tried again without looking for the entry", defs: "-DN=2 -DNO_FIND", refutes: nothing},
	{name: "create-again-enters", size: "the same; and two hold the lock", defs: "-DN=2 -DNO_FIND -DCRASHES=1 -DQUITS=0 -DDRIFT=0", refutes: exclusion},
	{name: "no-listing", size: "whose foretold predecessor has gone enters without listing", defs: "-DN=3 -DONCE -DNO_LIST", refutes: exclusion},
	{name: "no-timer", size: "expiry is never judged", defs: "-DN=2 -DPROGRESS -DCRASHES=1 -DDRIFT=0 -DNO_TIMER", refutes: served, progress: true},
}

// result is what came out of a check.
type result struct {
	states  int
	refuted string          // the property that does not hold, or ""
	dead    map[string]bool // steps that were never reached
	took    time.Duration
	trail   string // what happens, if something is refuted
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

// missing names the packages, as their commands are named, that are not there.
func missing() (packages []string, _ error) {
	for _, command := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(command); err != nil {
			packages = append(packages, command)
		}
	}
	return packages, nil
}

func run(ctx context.Context, args []string) error {
	all := slices.Concat(right, wrong)
	single := len(args) > 0
	if single {
		i := slices.IndexFunc(all, func(c check) bool { return c.name == args[0] })
		if i < 0 || len(args) > 1 {
			return fmt.Errorf("%q: want no argument, or the name of one check", args)
		}
		all = all[i : i+1]
	}
	if err := zkserver.Install(ctx, missing); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-model-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	begun := time.Now()
	results, errs := make([]result, len(all)), make([]error, len(all))
	running := make(chan struct{}, min(runtime.NumCPU(), 2)) // each takes up to 1 GB
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() {
			running <- struct{}{}
			defer func() { <-running }()
			if results[i], errs[i] = c.run(ctx, filepath.Join(dir, c.name)); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", c.name, errs[i])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}

	failed := false
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECK\tWHAT\tSTATES\tVERDICT\tSECONDS")
	for i, c := range all {
		verdict, ok := c.verdict(results[i])
		failed = failed || !ok
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%.1f\n", c.name, c.size, results[i].states, verdict, results[i].took.Seconds())
	}
	w.Flush()
	for i, c := range all {
		if _, ok := c.verdict(results[i]); results[i].trail != "" && (single || !ok) {
			fmt.Printf("\n%s: how %s comes to fail:\n%s", c.name, results[i].refuted, results[i].trail)
		}
	}
	if !single {
		if dead := unreached(all, results); len(dead) > 0 {
			return fmt.Errorf("no check reaches these steps of the model, so what was verified says nothing of them:\n%s", strings.Join(dead, "\n"))
		}
		fmt.Printf("\n%d properties verified, %d wrong variants, in %.0f s\n", len(right), len(wrong), time.Since(begun).Seconds())
	}
	if failed {
		return errors.New("spin did not say what it should")
	}
	return nil
}

// verdict is what the result means, and whether it is as it should be.
func (c check) verdict(r result) (text string, ok bool) {
	switch {
	case r.refuted == c.refutes && r.refuted == "":
		return "verified", true
	case r.refuted == c.refutes:
		return "refuted: " + r.refuted, true
	case r.refuted == "":
		return "NOT REFUTED", false
	}
	return "REFUTED: " + r.refuted, false
}

// What a verifier prints.
var (
	states    = regexp.MustCompile(`(?m)^ *([0-9.e+]+) states, stored`)
	errorsAre = regexp.MustCompile(`errors: ([0-9]+)`)
	violated  = regexp.MustCompile(`assertion violated \(?(\w+)`)
	deadStep  = regexp.MustCompile(`(?m)^\t\S*` + sourceFile + `:([0-9]+), state [0-9]+, (".*")$`)
)

// incomplete are the signs that a verifier did not look at everything.
var incomplete = []string{"Search not completed", "max search depth too small", "out of memory", "memory limit", "hash table size"}

// run has spin make the verifier of the variant, in a new folder, and runs it.
func (c check) run(ctx context.Context, dir string) (result, error) {
	begun := time.Now()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return result{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, sourceFile), source, 0o600); err != nil {
		return result{}, err
	}
	// The shortest way to a violated assertion is found breadth first.
	options, flags := []string{"-DSAFETY"}, []string{"-m3000000"}
	switch {
	case c.progress:
		options, flags = nil, []string{"-a", "-m3000000"}
	case c.refutes != "":
		options, flags = []string{"-DSAFETY", "-DBFS"}, nil
	}
	defs := strings.Fields(c.defs)
	if _, err := command(ctx, dir, "spin", append(defs, "-a", sourceFile)...); err != nil {
		return result{}, err
	}
	if _, err := command(ctx, dir, "gcc", append(options, "-w", "-O2", "-DNOFAIR", "-DMEMLIM=4096", "-o", "pan", "pan.c")...); err != nil {
		return result{}, err
	}
	out, err := command(ctx, dir, "./pan", flags...)
	if err != nil {
		return result{}, err
	}
	r := result{took: time.Since(begun), dead: make(map[string]bool)}
	for _, m := range deadStep.FindAllSubmatch(out, -1) {
		r.dead[fmt.Sprintf("%s:%s: %s", sourceFile, m[1], m[2])] = true
	}
	number, found := states.FindSubmatch(out), errorsAre.FindSubmatch(out)
	if number == nil || found == nil {
		return result{}, fmt.Errorf("the verifier tells no result:\n%s", out)
	}
	stored, err := strconv.ParseFloat(string(number[1]), 64)
	if err != nil {
		return result{}, err
	}
	r.states = int(stored)
	if string(found[1]) == "0" {
		for _, sign := range incomplete {
			if bytes.Contains(out, []byte(sign)) {
				return result{}, fmt.Errorf("the verifier did not look at everything: %s", sign)
			}
		}
		return r, nil
	}
	switch m := violated.FindSubmatch(out); {
	case m != nil:
		r.refuted = string(m[1])
	case bytes.Contains(out, []byte("acceptance cycle")):
		r.refuted = served
	default:
		return result{}, fmt.Errorf("the verifier tells no property:\n%s", out)
	}
	trail, err := command(ctx, dir, "spin", append(defs, "-t", "-T", sourceFile)...)
	r.trail = string(story(trail))
	return r, err
}

// story leaves of a trail what happens, without the variables at its end.
func story(trail []byte) []byte {
	if i := bytes.Index(trail, []byte("spin: ")); i >= 0 {
		trail = trail[:i]
	}
	return trail
}

// unreached returns the steps that none of the whole checks has reached.
func unreached(checks []check, results []result) []string {
	times, whole := make(map[string]int), 0
	for i, c := range checks {
		if c.whole {
			whole++
			for step := range results[i].dead {
				times[step]++
			}
		}
	}
	var dead []string
	for step, n := range times {
		if n == whole && !strings.Contains(step, `"-end-"`) {
			dead = append(dead, step)
		}
	}
	slices.Sort(dead)
	return dead
}

// command runs a program in the folder and returns what it printed.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w:\n%s", cmd, errors.Join(err, context.Cause(ctx)), out)
	}
	return out, nil
}
