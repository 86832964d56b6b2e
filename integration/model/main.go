// Model checks models of the lock protocol with spin. The promises of the protocol must hold in
// each state of a model. Spin must refute each variant that is wrong on purpose.
//
//	model          checks all, and prints a table
//	model NAME     checks one; if spin refutes it, prints the steps that show it
//
// If spin is missing, it is installed where this is allowed; see package zkserver. The exit status
// is 0 if all results are as expected.
package main

import (
	"bytes"
	"context"
	"embed"
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
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

//go:embed *.pml
var sources embed.FS

// result is the result of a check.
type result struct {
	states  int
	refuted string          // property that does not hold; "": all hold
	dead    map[string]bool // steps that spin did not reach
	took    time.Duration
	trail   string // steps of the counterexample, if a property is refuted
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

// missing returns the packages whose commands are not in the PATH.
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
	results := make([]result, len(all))
	running := make(chan struct{}, min(runtime.NumCPU(), 2)) // each verifier takes up to 3.5 GB
	err = wait.All(len(all), func(i int) (err error) {
		running <- struct{}{}
		defer func() { <-running }()
		if results[i], err = all[i].run(ctx, filepath.Join(dir, all[i].name)); err != nil {
			err = fmt.Errorf("%s: %w", all[i].name, err)
		}
		return err
	})
	if err != nil {
		return err
	}
	return report(all, results, single, time.Since(begun))
}

// report prints the results. It returns an error if a result is not as expected. Unless single is
// true, it also returns an error if a step is reached by none of the whole checks.
func report(checks []check, results []result, single bool, took time.Duration) error {
	failed := false
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECK\tWHAT\tSTATES\tVERDICT\tSECONDS")
	for i, c := range checks {
		verdict, ok := c.verdict(results[i])
		failed = failed || !ok
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%.1f\n", c.name, c.size, results[i].states, verdict, results[i].took.Seconds())
	}
	w.Flush()
	for i, c := range checks {
		if _, ok := c.verdict(results[i]); results[i].trail != "" && (single || !ok) {
			fmt.Printf("\n%s: how %s comes to fail:\n%s", c.name, results[i].refuted, results[i].trail)
		}
	}
	if !single {
		if dead := unreached(checks, results); len(dead) > 0 {
			return fmt.Errorf("no check reaches these steps of the model, so what was verified says nothing of them:\n%s", strings.Join(dead, "\n"))
		}
		fmt.Printf("\n%d checks verified, %d wrong variants refuted, in %.0f s\n", len(right), len(wrong), took.Seconds())
	}
	if failed {
		return errors.New("spin did not say what it should")
	}
	return nil
}

// verdict returns a text about the result, and whether the result is as expected.
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

// Patterns of a verifier's output.
var (
	states    = regexp.MustCompile(`(?m)^ *([0-9.e+]+) states, stored`)
	errorsAre = regexp.MustCompile(`errors: ([0-9]+)`)
	violated  = regexp.MustCompile(`assertion violated \(?(\w+)`)
	deadStep  = regexp.MustCompile(`(?m)^\t\S*?(\w+\.pml:[0-9]+), state [0-9]+, (".*")$`)
)

// incomplete has the messages of a verifier that did not search all states.
var incomplete = []string{"Search not completed", "max search depth too small", "out of memory", "memory limit", "hash table size"}

// run creates the folder dir, builds the variant's verifier there, runs it, and returns the result.
func (c check) run(ctx context.Context, dir string) (result, error) {
	begun := time.Now()
	defs := strings.Fields(c.defs)
	out, err := c.verify(ctx, dir, defs)
	if err != nil {
		return result{}, err
	}
	r := result{took: time.Since(begun), dead: make(map[string]bool)}
	for _, m := range deadStep.FindAllSubmatch(out, -1) {
		r.dead[fmt.Sprintf("%s: %s", m[1], m[2])] = true
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
	trail, err := command(ctx, dir, "spin", append(defs, "-t", "-T", c.model)...)
	events, _, _ := bytes.Cut(trail, []byte("spin: ")) // without the final values of the variables
	r.trail = string(events)
	return r, err
}

// verify creates the folder dir, builds the verifier there, runs it, and returns its output.
func (c check) verify(ctx context.Context, dir string, defs []string) ([]byte, error) {
	source, err := sources.ReadFile(c.model)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, c.model), source, 0o600); err != nil {
		return nil, err
	}
	// A breadth-first search finds the shortest path to a violated assertion, if memory suffices. A
	// refuted variant ends so early that optimized code does not pay.
	options, flags := []string{"-O2", "-DSAFETY"}, []string{"-m3000000"}
	switch {
	case c.progress:
		options, flags = []string{"-O2"}, []string{"-a", "-m3000000"}
	case c.refutes != "":
		options, flags = []string{"-O1", "-DSAFETY", "-DBFS"}, nil
	}
	if _, err := command(ctx, dir, "spin", append(defs, "-a", c.model)...); err != nil {
		return nil, err
	}
	if _, err := command(ctx, dir, "gcc", append(options, "-w", "-DNOFAIR", "-DCOLLAPSE", "-DMEMLIM=3500", "-o", "pan", "pan.c")...); err != nil {
		return nil, err
	}
	return command(ctx, dir, "./pan", flags...)
}

// unreached returns the steps that none of the whole checks of their model reached.
func unreached(checks []check, results []result) []string {
	times, whole := make(map[string]int), make(map[string]int)
	for i, c := range checks {
		if c.whole {
			whole[c.model]++
			for step := range results[i].dead {
				times[step]++
			}
		}
	}
	var dead []string
	for step, n := range times {
		model, _, _ := strings.Cut(step, ":")
		if n == whole[model] && !strings.Contains(step, `"-end-"`) {
			dead = append(dead, step)
		}
	}
	slices.Sort(dead)
	return dead
}

// command runs a program in the folder and returns its output.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w:\n%s", cmd, errors.Join(err, context.Cause(ctx)), out)
	}
	return out, nil
}
