//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

// TestWaitForInputIsInterrupted: a signal ends break at its question, and run before its ticket.
func TestWaitForInputIsInterrupted(t *testing.T) {
	_, locks := served(t)
	hold, err := locks.Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "ticket")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for line, waits := range map[string]func() error{
		"break x": func() error { return nil },
		"run x --attach " + fifo + " -- true": func() error {
			w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // lets go the command that opens it
			if err == nil {
				err = w.Close()
			}
			return err
		},
	} {
		t.Run(line, func(t *testing.T) {
			in, typed, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			var errs bytes.Buffer
			status := make(chan int, 1)
			go func() { status <- run(ctx, strings.Fields(line), in, io.Discard, &errs) }()
			time.Sleep(300 * time.Millisecond) // until it waits; if it does not yet, this proves less
			cancel(app.Interrupt{Signal: syscall.SIGINT})
			select {
			case got := <-status:
				if got != app.StatusSignalled+int(syscall.SIGINT) || !strings.Contains(errs.String(), "interrupted by a signal") {
					t.Errorf("status %d, says %q", got, &errs)
				}
			case <-time.After(10 * time.Second):
				t.Error("it still waits")
			}
			if err := errors.Join(waits(), typed.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

// TestPipeIsInterrupted: a signal ends each command that waits for a configuration from a
// pipe that has no writer.
func TestPipeIsInterrupted(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "config")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
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
			w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // lets go the command that opens it
			if err != nil {
				t.Fatal(err)
			}
			w.Close()
		})
	}
}
