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
