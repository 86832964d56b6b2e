// Failing histories, shrunk to the lines that matter.

package sim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// keep writes a failed history to the folder FAILED. If SHRINK is a duration, it then shrinks the
// history for that long at most, and writes what is left beside it.
func (h history) keep(t *testing.T, broken violation) {
	folder := os.Getenv("FAILED")
	if folder == "" {
		return
	}
	write := func(name string, h history, about string) string {
		file := filepath.Join(folder, fmt.Sprintf("seed-%d%s", h.seed, name))
		if err := os.WriteFile(file, []byte("# "+about+"\n"+h.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Logf("the history is in %s: make sim HISTORY=that file runs it again", write("", h, broken.text))
	text := os.Getenv("SHRINK")
	if text == "" {
		return
	}
	limit, err := time.ParseDuration(text)
	if err != nil {
		t.Errorf("SHRINK=%q: must be a duration, such as 2m", text)
		return
	}
	again := func(h history) string {
		found, err := runApart(write(".tried", h, ""))
		if err != nil {
			t.Log(err)
		}
		return found
	}
	until := time.Now().Add(limit) // wall clock: it limits the search, and decides nothing
	small := shrink(h, broken.text, func() bool { return time.Now().Before(until) }, again)
	t.Logf("%d of its %d steps are left in %s, and break the same promise:\n%s", len(small.steps), len(h.steps), write(".shrunk", small, broken.text), small)
	os.Remove(filepath.Join(folder, fmt.Sprintf("seed-%d.tried", h.seed)))
}

// violationIn finds the violation in the output of a test.
var violationIn = regexp.MustCompile(`(?m)_test\.go:\d+: seed \d+, kind \w+: (.*)$`)

// runApart runs the history in a file in a process of its own, so that it does not depend on earlier
// histories. It returns the violation, "" if there is none.
func runApart(file string) (string, error) {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSimulation$", "-test.timeout", "2m")
	cmd.Env = append(os.Environ(), "HISTORY="+file, "FAILED=", "TRACE=")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	if found := violationIn.FindSubmatch(out); found != nil {
		return string(found[1]), nil
	}
	return "", nil
}

// shrinking is the search for the smallest history that breaks a promise.
type shrinking struct {
	best  history
	class string
	goOn  func() bool
	run   func(history) string // returns the violation, or ""
}

// shrink returns the smallest history that it finds while goOn is true, and that breaks the same
// promise as h does. It leaves out actors, then halves, quarters and so on of the steps, then
// arguments.
func shrink(h history, broken string, goOn func() bool, run func(history) string) history {
	s := &shrinking{h, class(broken), goOn, run}
	for before := -1; before != s.size() && goOn(); {
		before = s.size()
		s.leaveOutActors()
		for n := max(1, len(s.best.steps)/2); n > 0; n /= 2 {
			s.leaveOut(n)
		}
		s.leaveOutArguments()
	}
	return s.best
}

// class returns the kind of a violation: its text without what differs from run to run.
func class(broken string) string {
	text := regexp.MustCompile(`"[^"]*"|/\S+|\S*[0-9]\S*`).ReplaceAllString(broken, "#")
	return strings.Join(strings.Fields(text)[:min(8, len(strings.Fields(text)))], " ")
}

func (s *shrinking) size() (n int) {
	for _, one := range s.best.steps {
		n += 1 + len(one.args)
	}
	return n
}

// try takes a smaller history if it breaks the promise, too. It reports whether it did.
func (s *shrinking) try(steps []step) bool {
	if len(steps) == 0 || !s.goOn() {
		return false
	}
	h := history{s.best.plan, steps}
	broken := s.run(h)
	if broken == "" || class(broken) != s.class {
		return false
	}
	s.best = h
	return true
}

// leaveOutActors leaves out all steps of a process, of one of its workers, or of a kind of fault.
func (s *shrinking) leaveOutActors() {
	groups := func(one step) []string {
		who, _, _ := strings.Cut(one.who, "/")
		return []string{who, one.who, "the step " + one.what}
	}
	tried := map[string]bool{}
	for again := true; again; {
		again = false
		for _, one := range s.best.steps {
			for _, name := range groups(one) {
				if again || tried[name] {
					continue
				}
				tried[name] = true
				again = s.try(slices.DeleteFunc(slices.Clone(s.best.steps), func(other step) bool { return slices.Contains(groups(other), name) }))
			}
		}
	}
}

// leaveOut leaves out n steps at once, from the last to the first.
func (s *shrinking) leaveOut(n int) {
	for end := len(s.best.steps); end > 0; end -= n {
		s.try(slices.Delete(slices.Clone(s.best.steps), max(0, end-n), end))
	}
}

func (s *shrinking) leaveOutArguments() {
	for i := range s.best.steps {
		for j := len(s.best.steps[i].args) - 1; j >= 0; j-- {
			if strings.HasPrefix(s.best.steps[i].args[j], "life=") {
				continue // two lives of one name are no history
			}
			steps := slices.Clone(s.best.steps)
			steps[i] = steps[i].without(j)
			s.try(steps)
		}
	}
}

// TestShrink: of a history of over a hundred steps, in which a hold is lost, those are left that lose
// one.
func TestShrink(t *testing.T) {
	runs := 0
	run := func(h history) string {
		runs++
		if got, broken := h.run(t); broken.text != "" || got["holds lost"] == 0 {
			return broken.text
		}
		return "a hold is lost"
	}
	var h history
	broken := ""
	for seed := uint64(1); broken != "a hold is lost" || len(h.steps) < 100; seed++ {
		h = draw(seed, faulty)
		h.lasts, h.outlives = 30*time.Second, false
		h.steps = slices.DeleteFunc(h.steps, func(s step) bool { return s.at > h.lasts })
		broken = run(h)
	}
	small := shrink(h, broken, func() bool { return runs < 300 }, run)
	t.Logf("%d of %d steps are left after %d runs:\n%s", len(small.steps), len(h.steps), runs, small)
	if len(small.steps) > 10 {
		t.Errorf("%d steps are left, want 10 at most", len(small.steps))
	}
}
