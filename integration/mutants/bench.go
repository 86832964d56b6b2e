package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/integration/repeatable"
)

// simulation is the test of random histories in package simulated; the variables SEED and SEEDS
// select the histories. ticks is the test of random histories of jobs. A history of jobs has about ticksOfSeed ticks.
const (
	simulated   = "lock/internal/sim"
	simulation  = "TestSimulation"
	ticks       = "TestTicks"
	ticksOfSeed = 250
)

// bench builds and tests mutants.
type bench struct {
	root  string // folder of the module
	temp  string
	seeds int  // largest number of histories of the simulation; 0: do not run it
	audit bool // only violations that the audit finds count
	// replace has the files that replace others, by the originals' path: the merged ones, and those of a
	// Go runtime without random choices.
	replace map[string]string
}

// result is the result of a mutant.
type result struct {
	seed  string   // first seed with which the simulation fails; "": none
	says  string   // output of that failure
	tests []string // failed tests
	err   error    // the mutant is unusable
}

func (r result) caughtBy() []string {
	by := r.tests
	if r.seed != "" {
		by = append([]string{"simulation (seed " + r.seed + ")"}, by...)
	}
	return by
}

func (r result) String() string {
	by := strings.Join(r.caughtBy(), ", ")
	switch {
	case r.err != nil:
		return "WRONG: " + r.err.Error()
	case by == "":
		return "SURVIVED"
	case r.says != "":
		return "caught by " + by + ": " + r.says
	}
	return "caught by " + by
}

// baseline builds the test binaries, and checks that the unchanged code, which they run if no mutant is
// selected, passes all tests that mutants must fail.
func (b *bench) baseline(ctx context.Context, mutants []mutant) error {
	merged, err := merge(b.root, b.temp, mutants)
	if err != nil {
		return err
	}
	maps.Copy(b.replace, merged)
	if b.audit {
		intact, err := b.intactAudit()
		if err != nil {
			return err
		}
		maps.Copy(b.replace, intact)
	}
	overlay, err := repeatable.Overlay(b.temp, b.replace)
	if err != nil {
		return err
	}
	whole := mutant{}
	for _, m := range mutants {
		whole.tests = append(whole.tests, m.tests...)
	}
	for _, pkg := range b.packages(whole) {
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", filepath.Join(b.temp, binary(pkg)), "-overlay", overlay, "./"+pkg)
		cmd.Dir = b.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("a mutant does not compile: %w\n%s", err, out)
		}
	}
	r := b.test(ctx, whole)
	switch {
	case r.err != nil:
		return r.err
	case r.seed != "":
		return fmt.Errorf("simulation: %s", r.says)
	case len(r.tests) > 0:
		return fmt.Errorf("%s failed", strings.Join(r.tests, ", "))
	}
	return nil
}

// try tests a mutant. Unless only the audit counts, the result has an error if a test that must
// fail passes.
func (b *bench) try(ctx context.Context, m mutant) result {
	r := b.test(ctx, m)
	for _, name := range m.tests {
		if r.err == nil && !b.audit && !slices.Contains(r.tests, name) {
			r.err = fmt.Errorf("%s does not notice that %s", name, m.breaks)
		}
	}
	return r
}

// intactAudit returns replacements with which package audit uses unbroken copies of package znode and of
// the one between them. With a broken copy, audit would make the same mistakes as the clients, and miss
// violations.
func (b *bench) intactAudit() (map[string]string, error) {
	const znode, records, audit = "lock/znode", "lock/history/internal/records", "lock/history/audit"
	copies := strings.NewReplacer("/"+znode+`"`, "/"+audit+`/znode"`, "/"+records+`"`, "/"+audit+`/records"`)
	replace := map[string]string{}
	for _, pkg := range []string{znode, records, audit} {
		files, err := filepath.Glob(filepath.Join(b.root, pkg, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			name := filepath.Base(file)
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			changed := filepath.Join(b.temp, "audit_"+filepath.Base(pkg)+"_"+name)
			if err := os.WriteFile(changed, []byte(copies.Replace(string(source))), 0o600); err != nil {
				return nil, err
			}
			if pkg != audit {
				file = filepath.Join(b.root, audit, filepath.Base(pkg), name)
			}
			replace[file] = changed
		}
	}
	return replace, nil
}

// named returns the names of the mutant's tests in a package.
func (m mutant) named(pkg string) (names []string) {
	for _, t := range m.tests {
		if name, ok := strings.CutPrefix(t, pkg+"."); ok {
			names = append(names, name)
		}
	}
	return names
}

// audited are the packages whose tests log what the audit finds, if AUDIT_ONLY is set.
var audited = []string{"reaper", "lock/schedule", "lock", simulated}

// packages returns the packages in which the mutant is tested, in the order of the tests.
func (b *bench) packages(m mutant) (pkgs []string) {
	for _, t := range m.tests {
		pkgs = append(pkgs, t[:strings.LastIndexByte(t, '.')])
	}
	if b.seeds > 0 {
		pkgs = append(pkgs, simulated)
	}
	slices.Sort(pkgs)
	pkgs = slices.Compact(pkgs)
	if b.audit {
		return slices.DeleteFunc(slices.Clone(audited), func(pkg string) bool { return !slices.Contains(pkgs, pkg) })
	}
	return pkgs
}

// test runs the simulation and the tests that the mutant names.
func (b *bench) test(ctx context.Context, m mutant) (r result) {
	if b.audit {
		return b.testByAudit(ctx, m)
	}
	for _, pkg := range b.packages(m) {
		if pkg == simulated && b.seeds > 0 {
			r.seed, r.says, r.err = b.simulate(ctx, m)
			if m.number > 0 && (errors.Is(r.err, errStuck) || errors.Is(r.err, errPanic)) {
				r.err = nil // the named tests decide
			}
			if r.err != nil {
				return r
			}
		}
		named := m.named(pkg)
		if len(named) == 0 {
			continue
		}
		got, err := b.run(ctx, m, pkg, named)
		if err != nil {
			r.err = err
			return r
		}
		for _, t := range named {
			switch {
			case got.has("FAIL", t):
				r.tests = append(r.tests, pkg+"."+t)
			case !got.has("PASS", t):
				r.err = fmt.Errorf("there is no test %s.%s", pkg, t)
				return r
			}
		}
	}
	return r
}

// testByAudit is like test, but only violations that the audit finds count. The named tests come
// first: they take less time than the simulation.
func (b *bench) testByAudit(ctx context.Context, m mutant) (r result) {
	for _, pkg := range b.packages(m) {
		if m.number > 0 {
			if r.says, r.err = b.noticed(ctx, m, pkg); r.says != "" {
				r.tests = []string{"audit of the named tests"}
			}
		}
		if r.says == "" && r.err == nil && pkg == simulated {
			r.seed, r.says, r.err = b.simulate(ctx, m)
		}
		if r.says != "" || r.err != nil {
			break
		}
	}
	return r
}

// binary returns the name of a package's test binary.
func binary(pkg string) string { return strings.ReplaceAll(pkg, "/", "_") + ".test" }

// auditRule matches the line that a test prints for a violation that the audit has found.
var auditRule = regexp.MustCompile(`audit: 0x[0-9a-f]+ (\w+): .*`)

// noticed runs the mutant's tests in a package, and returns a violation that the audit finds; "" if
// it finds none. It ignores rules that the same tests break with the unchanged code: some tests
// delete nodes by hand.
func (b *bench) noticed(ctx context.Context, m mutant, pkg string) (says string, err error) {
	tests := m.named(pkg)
	if len(tests) == 0 {
		return "", nil
	}
	found := [2]map[string]string{{}, {}} // violations by rule, of the unchanged code and the mutant
	for i, m := range []mutant{{}, m} {
		out, err := b.run(ctx, m, pkg, tests, "AUDIT_ONLY=1")
		if err != nil {
			return "", err
		}
		for _, line := range auditRule.FindAllSubmatch(out, -1) {
			found[i][string(line[1])] = string(line[0])
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(found[1])) {
		if found[0][rule] == "" {
			return found[1][rule], nil
		}
	}
	return "", nil
}

var (
	failedSeed = regexp.MustCompile(`(?m)^ +--- FAIL: (?:` + simulation + `|` + ticks + `)/seed=(\d+) `)
	violation  = regexp.MustCompile(`_test\.go:\d+: (?:seed \d+: )?(.*)`)
)

// simulate returns the first seed that fails, and the simulation's output. Both are "" if no seed
// fails. If only the audit counts, mutants of package schedule run in the simulation of jobs.
func (b *bench) simulate(ctx context.Context, m mutant) (seed, says string, err error) {
	test, env := simulation, []string{"SEED=1", fmt.Sprint("SEEDS=", b.seeds)}
	if b.audit {
		env = append(env, "AUDIT_ONLY=1")
		if slices.ContainsFunc(m.edits, func(e edit) bool { return e.pkg == "lock/schedule" }) {
			test, env[1] = ticks, fmt.Sprint("TICKS=", ticksOfSeed*b.seeds)
		}
	}
	out, err := b.run(ctx, m, simulated, []string{test}, env...)
	if err != nil {
		return "", "", err
	}
	if failed := failedSeed.FindSubmatch(out); failed != nil {
		seed = string(failed[1])
	} else if !out.has("PASS", test) {
		return "", "", fmt.Errorf("%s did not run, or fails with no seed of its own", test)
	}
	if said := violation.FindSubmatch(out); seed != "" && said != nil {
		says = string(said[1])
	}
	return seed, says, nil
}

// output is the output of a test binary.
type output []byte

// has reports whether the test had the outcome, PASS or FAIL.
func (o output) has(outcome, test string) bool {
	return bytes.Contains(o, []byte("--- "+outcome+": "+test+" ("))
}

// errStuck and errPanic say that a test binary did not end in time, and that it panicked.
var (
	errStuck = errors.New("does not end")
	errPanic = errors.New("panics")
)

// patience returns the time limit of a test binary on a busy machine. The unchanged code runs the
// tests of all mutants in one go.
func (b *bench) patience(m mutant) time.Duration {
	limit := 3 * time.Minute
	if m.number == 0 {
		limit = 20 * time.Minute
	}
	return limit + time.Duration(b.seeds)*time.Second
}

// run runs some tests of a package, one at a time, so that a run is repeatable. A failed test is no
// error; errPanic and errStuck are.
func (b *bench) run(ctx context.Context, m mutant, pkg string, tests []string, env ...string) (output, error) {
	pattern := "^(" + strings.Join(tests, "|") + ")$"
	// Not the binary's own timeout: it cannot interrupt goroutines that never wait.
	limit, cancel := context.WithTimeout(ctx, b.patience(m))
	defer cancel()
	cmd := exec.CommandContext(limit, filepath.Join(b.temp, binary(pkg)), "-test.v", "-test.run", pattern, "-test.timeout", "0")
	cmd.Dir, cmd.WaitDelay = filepath.Join(b.root, pkg), time.Minute // a child may keep the output open
	cmd.Env = slices.Concat(os.Environ(), repeatable.Env(), []string{"RAPID_SEED=1", "RAPID_NOFAILFILE=true", fmt.Sprint("MUTANT=", m.number)}, env)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if limit.Err() != nil {
		return nil, fmt.Errorf("%s in %s: %w within %v", pattern, pkg, errStuck, b.patience(m))
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	if at := bytes.Index(out, []byte("\npanic: ")); at >= 0 {
		first, _, _ := strings.Cut(string(out[at+len("\npanic: "):]), "\n")
		return nil, fmt.Errorf("%s in %s: %w: %s", pattern, pkg, errPanic, first)
	}
	if err != nil && !bytes.Contains(out, []byte("--- FAIL: ")) {
		return nil, fmt.Errorf("%s in %s: %w, but no test failed:\n%s", pattern, pkg, err, out)
	}
	return out, nil
}
