package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

func TestMain(m *testing.M) { os.Exit(zkserver.Main(m)) }

// TestRace: in a short race package schedule keeps its promises, and the result can be read back.
func TestRace(t *testing.T) {
	zkserver.NeedReal(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		zkserver.NotRun(t, "redis-server is not installed")
	}
	got, err := run(t.Context(), settings{Seed: 1, Duration: 20 * time.Second, Servers: 1}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range got.broken() {
		t.Error(err)
	}
	for _, f := range got.Groups {
		if n := f.ticks(); n != 20 && n != 21 {
			t.Errorf("%s: %d ticks in 20 s", f.Group, n)
		}
	}
	file := filepath.Join(t.TempDir(), "results.jsonl")
	for range 2 {
		if err := got.addTo(file); err != nil {
			t.Fatal(err)
		}
	}
	back, err := readResults(file)
	if err != nil || len(back) != 2 || table(back[:1]) != table([]result{got}) {
		t.Errorf("%+v, %v; want %+v", back, err, got)
	}
	t.Log("\n" + table(back[:1]))
}

// TestWallClock: a replica's time.Now is ahead by the value of wallEnv.
func TestWallClock(t *testing.T) {
	dir := t.TempDir()
	program, err := buildReplica(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for ahead, want := range map[string]time.Duration{"3600500000000": time.Hour + 500*time.Millisecond, "-7200000000001": -2*time.Hour - 1, "": 0} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = []string{wallEnv + "=" + ahead, replicaEnv + "=" + tellTime}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(out)))
		if off := time.Until(now); err != nil || (off-want).Abs() > 5*time.Second {
			t.Errorf("%s: %v, %v off, want %v", ahead, err, off, want)
		}
	}
}
