package zkserver

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

func startShell(t *testing.T, script string) *Worker {
	t.Helper()
	w, err := StartWorker(exec.Command("sh", "-c", script))
	iferr.Fatal(t, err)
	t.Cleanup(func() { w.Close(0) })
	return w
}

// TestWorkersChildren: while a child of an ended worker has the worker's files open, Hear obeys its
// context, and Close does not wait for the child.
func TestWorkersChildren(t *testing.T) {
	w := startShell(t, `sleep 1000 & echo $!`)
	child, err := w.Hear(t.Context())
	iferr.Fatal(t, err)
	t.Cleanup(func() { exec.Command("kill", child.Text).Run() })
	<-w.Exited()
	why := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, why) // wall clock: that a process lives on is no event
	defer cancel()
	if _, err := w.Hear(ctx); !errors.Is(err, why) {
		t.Errorf("while the child lives: %v", err)
	}
	w.Close(0)
}

func TestWorkerHasTimeToEnd(t *testing.T) {
	for name, test := range map[string]struct {
		script   string
		patience time.Duration
		code     int
	}{
		"in time": {"cat; exit 4", time.Minute, 4},
		"never":   {"exec sleep 1000", 0, -1},
	} {
		w := startShell(t, test.script)
		w.Close(test.patience)
		if code := w.ExitCode(); code != test.code {
			t.Errorf("%s: exit status %d, want %d", name, code, test.code)
		}
	}
}
