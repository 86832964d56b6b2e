//go:build unix

package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/config"
)

// TestLoadOfAPipeIsInterrupted: a signal ends Load of a pipe that has no writer.
func TestLoadOfAPipeIsInterrupted(t *testing.T) {
	clearEnv(t)
	fifo := filepath.Join(t.TempDir(), "config")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(Interrupt{syscall.SIGTERM})
	_, err := (&Flags{Config: fifo}).Load(ctx)
	if Status(ctx, err) != StatusSignalled+int(syscall.SIGTERM) || !errors.Is(err, Interrupt{syscall.SIGTERM}) {
		t.Errorf("%v, status %d", err, Status(ctx, err))
	}
	// Release the goroutine that opens the pipe.
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}

// TestHangups: SIGHUP ends a program, unless it has called Hangups.
func TestHangups(t *testing.T) {
	h := &hangups{told: make(chan struct{}, 1), signals: make(chan os.Signal, 3)}
	ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), hangupsKey{}, h))
	defer cancel(nil)
	h.signals <- syscall.SIGHUP
	h.follow(cancel)
	if cause := context.Cause(ctx); cause != (Interrupt{syscall.SIGHUP}) {
		t.Errorf("ended by %v", cause)
	}

	ctx, cancel = context.WithCancelCause(context.WithValue(t.Context(), hangupsKey{}, h))
	defer cancel(nil)
	told := Hangups(ctx)
	h.signals <- syscall.SIGHUP
	h.signals <- syscall.SIGHUP // two signals at once count as one
	h.signals <- syscall.SIGTERM
	h.follow(cancel)
	if cause := context.Cause(ctx); cause != (Interrupt{syscall.SIGTERM}) {
		t.Errorf("ended by %v", cause)
	}
	if len(told) != 1 {
		t.Errorf("told %d times, want once", len(told))
	}
	if Hangups(t.Context()) != nil {
		t.Error("there is nothing to tell of SIGHUP outside of Main")
	}
}

// TestPasswordPipe: a password's file that is a pipe without a writer does not keep a signal from ending
// the command.
func TestPasswordPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "password")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("config.yaml", []byte("zookeeper: {servers: [\"127.0.0.1:1\"], auth: {scheme: digest, user: shop, password_file: "+pipe+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(Interrupt{Signal: syscall.SIGTERM})
	ended := make(chan error, 1)
	go func() { _, err := Dial(ctx, cfg, zerolog.Nop()); ended <- err }()
	select {
	case err := <-ended:
		if want := (Interrupt{Signal: syscall.SIGTERM}); !errors.Is(err, want) || Status(ctx, err) != StatusSignalled+int(syscall.SIGTERM) {
			t.Errorf("%v, status %d", err, Status(ctx, err))
		}
	case <-time.After(time.Minute):
		t.Error("it still waits for a writer of the pipe")
	}
	if w, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil { // lets the reader end; waits for it
		w.Close()
	}
}
