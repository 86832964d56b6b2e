package zkserver

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func startShell(t *testing.T, script string) *Worker {
	t.Helper()
	w, err := StartWorker(exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(0) })
	return w
}

func mustHear(t *testing.T, w *Worker, want string) {
	t.Helper()
	if line, err := w.Hear(t.Context()); err != nil || line.Text != want {
		t.Fatalf("heard %q, %v: want %q", line.Text, err, want)
	}
}

func TestWorkerDoesWhatItIsTold(t *testing.T) {
	w := startShell(t, `read a; echo "$a heard"; read b || echo ended; echo it breaks >&2; printf half; exit 3`)
	if err := w.Tell("this is", 1); err != nil {
		t.Fatal(err)
	}
	mustHear(t, w, "this is 1 heard")
	w.EndInput()
	mustHear(t, w, "ended")
	mustHear(t, w, "half")
	if _, err := w.Hear(t.Context()); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "(exit status 3): it breaks") {
		t.Errorf("after its end: %v", err)
	}
	if code := w.ExitCode(); code != 3 || w.Stderr() != "it breaks\n" {
		t.Errorf("exit status %d, standard error %q", code, w.Stderr())
	}
}

// TestRunning: the error says how a process has ended, also without a failure.
func TestRunning(t *testing.T) {
	w := startShell(t, "read a; exit 0")
	if err := w.Running(); err != nil {
		t.Error(err)
	}
	w.EndInput()
	<-w.Exited()
	if err := w.Running(); err == nil || !strings.HasSuffix(err.Error(), " has ended: exit status 0") {
		t.Errorf("after its end: %v", err)
	}
}

// TestWorkersChildren: while a child of an ended worker has the worker's files open, Hear obeys its
// context, and Close does not wait for the child.
func TestWorkersChildren(t *testing.T) {
	w := startShell(t, `sleep 1000 & echo $!`)
	child, err := w.Hear(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
