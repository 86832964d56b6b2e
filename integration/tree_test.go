package integration_test

import (
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestImports: packages import of ours what the map in CONTRIBUTING.md says, and no more.
func TestImports(t *testing.T) {
	const module = "github.com/holdfast-io/holdfast/"
	only := map[string][]string{ // all that a package imports of ours
		"lock/znode":                    {},
		"lock/internal/place":           {},
		"lock/internal/outbox":          {},
		"lock/internal/calendar":        {},
		"lock/internal/rule":            {"lock/internal/clock", "lock/znode"},
		"lock/locktest":                 {"lock/znode", "integration/iferr", "integration/script"},
		"lock/locktest/wire":            {},
		"lock/internal/zkconn":          {"lock/internal/outbox"},
		"lock/internal/revoke":          {"lock/internal/zkconn", "lock/znode"},
		"lock/history":                  {"lock/history/internal/records", "lock/history/txnlog", "lock/znode"},
		"lock/history/audit":            {"lock/history/internal/records", "lock/history/txnlog", "lock/znode"},
		"lock/history/txnlog":           {"lock/znode"},
		"lock/history/internal/records": {"lock/znode"},
		"lock/admin/jsonout":            {},
	}
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../"))
		test := strings.HasSuffix(path, "_test.go")
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		allowed, strict := only[folder]
		seen[folder] = seen[folder] || strict
		for _, each := range f.Imports {
			name, _ := strconv.Unquote(each.Path.Value) // the parser accepts only what can be unquoted
			ours, ok := strings.CutPrefix(name, module)
			switch {
			case !ok:
			case !test && strings.HasPrefix(ours, "integration/") && !strings.HasPrefix(folder, "integration"):
				t.Errorf("%s imports %s: only tests import from integration", path, name)
			case strict && (!test || folder == "lock/locktest") && ours != folder && !slices.Contains(allowed, ours):
				t.Errorf("%s imports %s: %s may import only %q of ours", path, name, folder, allowed)
			}
		}
		return nil
	})
	iferr.Fatal(t, err)
	for folder := range only {
		if !seen[folder] {
			t.Errorf("there is no package %s", folder)
		}
	}
}

// TestCISummary: the summary of .ci/run counts a void run neither as ok nor as failed, and says
// that the run proved nothing. The test replaces make by a script.
func TestCISummary(t *testing.T) {
	for name, test := range map[string]struct {
		make   string // script of make; $1 is the target
		status int
		want   []string
	}{
		"all is well": {`echo done`, 0, []string{"make test .* ok", "make torture DURATION=2m .* ok"}},
		"a void run": {`if [ $1 = torture ]; then echo VOID: servers; echo make: Error 2 >&2; exit 2; fi`, 0,
			[]string{"make released .* ok", "make sim .* ok", "make torture DURATION=2m .* void", "!!! make torture DURATION=2m PROVED NOTHING"}},
		"a void run beside a failure": {`case $1 in torture) echo VOID: servers; exit 2;; lint) exit 1; esac`, 1,
			[]string{"make lint .* failed", "make torture DURATION=2m .* void"}},
		"void at first, then failed": {`if [ $1 = torture ]; then echo VOID, for the servers; echo FAILED; exit 2; fi`, 1,
			[]string{"make torture DURATION=2m .* failed"}},
		"void at first, then passed": {`if [ $1 = torture ]; then echo VOID, for the servers; echo PASSED; fi`, 0,
			[]string{"make torture DURATION=2m .* ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			iferr.Fatal(t, os.WriteFile(filepath.Join(bin, "make"), []byte("#!/bin/sh\n"+test.make+"\n"), 0o700))
			cmd := exec.CommandContext(t.Context(), "../.ci/run")
			cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOLDFAST_NO_INSTALL=1") // no browser for pages that it does not look at
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != test.status {
				t.Errorf("exit status %d, want %d", got, test.status)
			}
			_, summary, _ := strings.Cut(string(out), "== summary")
			for _, want := range test.want {
				if !regexp.MustCompile(want).MatchString(summary) {
					t.Errorf("no line %q in the summary:%s", want, summary)
				}
			}
			if voids := strings.Count(summary, "PROVED NOTHING"); voids != strings.Count(test.make, "VOID: ") {
				t.Errorf("%d loud lines:%s", voids, summary)
			}
		})
	}
}
