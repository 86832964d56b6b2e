package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/golden"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/reaper"
)

func TestPrintReport(t *testing.T) {
	counts := reaper.Counts{Locks: 12, Live: 9, Expired: 2, Orphans: 1, Stale: 1, Foreign: 3, Undecodable: 1, Denied: 2, Deleted: 4}
	for file, r := range map[string]*reaper.Report{
		"sweep.txt": {
			Total: counts, Policies: map[string]*reaper.Counts{"default": &counts, "行列": {}, strings.Repeat("long", 15): {}},
			Denied:      []reaper.Denial{{Path: "/locks/secret\x1b", What: "list", Error: "zk: not authenticated"}},
			Undecodable: []string{"/locks/x/9f86d081884c7d65-lock-0000000000"},
		},
		"sweep-dry.txt": {
			DryRun: true, Total: reaper.Counts{Expired: 1, Orphans: 1}, Policies: map[string]*reaper.Counts{"default": {Expired: 1, Orphans: 1}},
			Planned: []reaper.Planned{{Path: "/locks/x/9f86d081884c7d65-lock-0000000000", Verdict: "expired"}, {Path: "/locks/y", Verdict: "orphan"}},
		},
		"sweep-skipped.txt": {Skipped: "another reaper is the active one"},
	} {
		r.Duration = time.Second
		var got bytes.Buffer
		if err := printReport(&got, r, false); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, file, got.Bytes())
	}
}

func TestPolicyTest(t *testing.T) {
	t.Setenv(app.EnvConfig, filepath.Join("testdata", "policies.yaml"))
	for file, args := range map[string][]string{
		"policy.txt":  {"policy", "test", "imports/a", "tenant-7/jobs/1", "orders"},
		"policy.json": {"policy", "test", "tenant-7/jobs/1", "--json"},
	} {
		out, errs, status := holdfast(t, args...)
		if status != 0 {
			t.Fatalf("%d: %s", status, errs)
		}
		golden.Check(t, file, []byte(out))
	}
}

// TestHelp: the help of each command has an example, and, except for version, the exit statuses. It fits
// into 80 columns, and shows no switch with values. The help of completion is cobra's.
func TestHelp(t *testing.T) {
	for _, cmd := range newCommand().Commands() {
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			continue
		}
		if cmd.Long == "" || cmd.Example == "" || cmd.Name() != "version" && !strings.Contains(cmd.Long, "Exit status:") {
			t.Errorf("the help of %s lacks something", cmd.Name())
		}
	}
	if out, _, _ := holdfast(t, "--help"); !strings.Contains(out, "completion") {
		t.Errorf("the help does not show completion:\n%s", out)
	}
	for _, cmd := range append(newCommand().Commands(), newCommand()) {
		if cmd.Name() == "completion" {
			continue
		}
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		out, _, status := holdfast(t, args...)
		if status != 0 {
			t.Errorf("%v: status %d", args, status)
		}
		configured := !slices.Contains([]string{"audit", "dev", "version"}, cmd.Name())
		if strings.Contains(out, "--servers host") != configured || strings.Contains(out, "--root node") != configured {
			t.Errorf("%v: the flags of the configuration are shown, or used: %v", args, configured)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%v: %d columns: %s", args, n, line)
			}
			if strings.Contains(line, "true|false") {
				t.Errorf("%v: a switch with values: %s", args, line)
			}
		}
	}
}
