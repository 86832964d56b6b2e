//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestWaitForInputIsInterrupted: a signal ends a break that waits for the answer, and a run that waits
// for the ticket.
func TestWaitForInputIsInterrupted(t *testing.T) {
	_, locks := served(t)
	hold := held(t, locks, "x")
	fifo := filepath.Join(t.TempDir(), "ticket")
	iferr.Fatal(t, syscall.Mkfifo(fifo, 0o600))
	// Each function returns when the command waits for its input. The test closes the result.
	for line, waits := range map[string]func(said *question) (io.Closer, error){
		"break x": func(said *question) (io.Closer, error) {
			<-said.asked
			return io.NopCloser(nil), nil
		},
		"run x --attach " + fifo + " -- true": func(*question) (io.Closer, error) {
			for { // the pipe has no reader until the command opens it
				w, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
				if !errors.Is(err, syscall.ENXIO) {
					return w, err
				}
				time.Sleep(time.Millisecond)
			}
		},
	} {
		t.Run(line, func(t *testing.T) {
			in, typed, err := os.Pipe()
			iferr.Fatal(t, err)
			defer in.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			errs := &question{asked: make(chan struct{})}
			status := make(chan int, 1)
			go func() { status <- run(ctx, strings.Fields(line), in, io.Discard, errs) }()
			input, err := waits(errs)
			iferr.Fatal(t, err)
			cancel(app.Interrupt{Signal: syscall.SIGINT})
			select {
			case got := <-status:
				if got != app.StatusSignalled+int(syscall.SIGINT) || !strings.Contains(errs.String(), "interrupted by a signal") {
					t.Errorf("status %d, says %q", got, errs)
				}
			case <-time.After(time.Minute):
				t.Error("it still waits")
			}
			iferr.Fatal(t, errors.Join(input.Close(), typed.Close()))
		})
	}
	iferr.Error(t, hold.Unlock())
}

// question is the standard error of a command. It closes asked when the command prints its question.
type question struct {
	mu    sync.Mutex
	text  bytes.Buffer
	asked chan struct{}
}

func (q *question) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if bytes.Contains(b, []byte("Go on?")) {
		close(q.asked)
	}
	return q.text.Write(b)
}

func (q *question) String() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.text.String()
}

// TestPipeIsInterrupted: a signal ends each command that waits for a configuration from a
// pipe that has no writer.
func TestPipeIsInterrupted(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "config")
	iferr.Fatal(t, syscall.Mkfifo(fifo, 0o600))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(app.Interrupt{Signal: syscall.SIGTERM})
	for _, line := range []string{
		"ls", "show x", "sweep", "doctor", "policy test x", "config check", "demo", "run x -- true", "break x --reason y --yes", "revoke x --reason y",
	} {
		t.Run(line, func(t *testing.T) {
			var out, errs bytes.Buffer
			status := make(chan int, 1)
			go func() {
				status <- run(ctx, append([]string{"--config", fifo}, strings.Fields(line)...), strings.NewReader(""), &out, &errs)
			}()
			select {
			case got := <-status:
				if got != app.StatusSignalled+int(syscall.SIGTERM) || !strings.Contains(errs.String(), "interrupted by a signal") || out.Len() > 0 {
					t.Errorf("status %d, says %q, prints %q", got, &errs, &out)
				}
			case <-time.After(time.Minute):
				t.Error("it still waits for the pipe")
			}
			w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // the command's open returns
			iferr.Fatal(t, err)
			w.Close()
		})
	}
}

// TestRunWithoutAReader: a standard error that has no reader, or is a full pipe that no process reads,
// does not end or delay run, so that it cleans up and has the documented exit status.
func TestRunWithoutAReader(t *testing.T) {
	_, locks := served(t)
	hold := held(t, locks, "x")
	for name, prepare := range map[string]func(r, w *os.File) error{
		"no reader": func(r, _ *os.File) error { return r.Close() },
		"full": func(_, w *os.File) error {
			err := w.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)) // wall clock: a full pipe makes no event
			for err == nil {
				_, err = w.Write(make([]byte, 1024))
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return err
		},
	} {
		r, w, err := os.Pipe()
		iferr.Fatal(t, err)
		iferr.Fatal(t, prepare(r, w))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, os.Args[0], "run", "x", "--wait", "0", "--", "true")
		cmd.Env = append(os.Environ(), envProgram+"=1", envLock+"=x") // the second causes a message before the wait
		cmd.Stderr = w
		_ = cmd.Run()
		if got := cmd.ProcessState; got.ExitCode() != statusNotAcquired {
			t.Errorf("%s: %v, want exit status %d", name, got, statusNotAcquired)
		}
		cancel()
		r.Close()
		w.Close()
	}
	iferr.Error(t, hold.Unlock())
}
