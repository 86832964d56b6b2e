package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	os.Exit(zkserver.Main(m))
}

// TestRun: in a short run Holdfast keeps its promises, all systems get locks, and the result can be
// published.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	zkserver.NeedReal(t)
	if _, err := zkserver.NewClock(t.Context(), t.TempDir(), 0); err != nil {
		zkserver.NotRun(t, "%v", err)
	}
	t.Parallel()
	r, err := run(t.Context(), shortSeed, 9*time.Second, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.broken() {
		t.Error(err)
	}
	for _, v := range r.Rows {
		if v.Holds == 0 {
			t.Errorf("%s, %s: no client got the lock", v.System, v.Workload)
		}
	}
	if len(r.Faults) == 0 {
		t.Error("there was no fault")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, page), []byte("before\n"+pageBegin+"old\n"+pageEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := publish(dir, []result{*r, *r}); err != nil {
		t.Fatal(err)
	}
	checkPage(t, dir, 2)
}

// shortSeed is a seed whose first fault fits into the duration of TestRun.
const shortSeed = 29

// TestPage: the page shows the results of results.jsonl, and the results show no broken promise.
func TestPage(t *testing.T) { checkPage(t, ".", 1) }

func checkPage(t *testing.T, dir string, n int) {
	t.Helper()
	results, err := readResults(filepath.Join(dir, resultsFile))
	if err != nil || len(results) != n {
		t.Fatalf("%d results, %v", len(results), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), pageBegin)
	written, after, ok := strings.Cut(rest, pageEnd)
	if want := "\n" + table(results); !ok || written != want {
		t.Errorf("the page has %q, %v, want %q: bin/jepsen -from %s -update in its folder writes it", written, ok, want, resultsFile)
	}
	if n == 2 && after != "after\n" {
		t.Errorf("the rest of the page is %q", after)
	}
	for _, r := range results {
		for _, err := range r.broken() {
			t.Error(err)
		}
	}
}
