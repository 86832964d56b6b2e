//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

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
