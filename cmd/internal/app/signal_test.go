//go:build unix

package app

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/config"
)

// TestHangups: after Hangups the program is told of SIGHUP, and not ended by it. A SIGHUP during the call
// does not end the process either: it would end that of this test.
func TestHangups(t *testing.T) {
	signal.Notify(hangup, syscall.SIGHUP)
	var ended atomic.Bool
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for !ended.Load() {
				_ = syscall.Kill(os.Getpid(), syscall.SIGHUP)
			}
		})
	}
	for range 1000 {
		hangups := Hangups()
		signal.Notify(hangup, syscall.SIGHUP)
		signal.Stop(hangups)
	}
	hangups := Hangups() // for as long as this process lives: the last SIGHUP may come after this test
	ended.Store(true)
	senders.Wait()
	for len(hangup) > 0 {
		<-hangup
	}
	iferr.Fatal(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	<-hangups
	if len(hangup) != 0 || cap(hangups) != 1 {
		t.Errorf("it ends the program, or %d can wait to be received", cap(hangups))
	}
}

// TestPasswordPipe: a password's file that is a pipe without a writer does not keep a signal from ending
// the command.
func TestPasswordPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "password")
	iferr.Fatal(t, syscall.Mkfifo(pipe, 0o600))
	cfg, err := config.Parse("config.yaml", []byte("zookeeper: {servers: [\"127.0.0.1:1\"], auth: {scheme: digest, user: shop, password_file: "+pipe+"}}"))
	iferr.Fatal(t, err)
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
