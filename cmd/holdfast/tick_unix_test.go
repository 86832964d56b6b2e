//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRunTickPassesSignalsOn: a signal for the command, such as SIGUSR1, does not keep further ticks
// from running.
func TestRunTickPassesSignalsOn(t *testing.T) {
	served(t)
	file := filepath.Join(t.TempDir(), "ran")
	command := func(script string) {
		t.Helper()
		if _, _, status := holdfast(t, "run", "--tick", "@every 1s", "x", "--", "sh", "-c", script); status != 0 {
			t.Errorf("status %d", status)
		}
	}
	command("true")
	time.Sleep(4 * time.Second) // wall clock: at least three ticks are late
	command(fmt.Sprintf("trap 'got=1' USR1; kill -USR1 %d; until [ \"$got\" ]; do sleep 0.05; done; echo $HOLDFAST_TICK >>%s", os.Getpid(), file))
	ran, err := os.ReadFile(file)
	if lines := strings.Count(string(ran), "\n"); err != nil || lines < 3 {
		t.Errorf("%d ticks ran, %v: %s", lines, err, ran)
	}
}
