//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestUnreadLog: a log that nobody reads does not keep a daemon from ending.
func TestUnreadLog(t *testing.T) {
	t.Setenv(app.EnvConfig, "")
	t.Setenv(app.EnvServers, "127.0.0.1:1")
	unread, errs, err := os.Pipe()
	iferr.Fatal(t, err)
	defer errs.Close()
	defer unread.Close() // first: it ends the blocked write
	fill(t, errs)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(app.Interrupt{Signal: syscall.SIGTERM})
	status := make(chan int, 1)
	go func() { status <- run(ctx, nil, strings.NewReader(""), io.Discard, errs) }()
	select {
	case got := <-status:
		if got != 0 {
			t.Errorf("status %d", got)
		}
	case <-time.After(time.Minute):
		t.Error("it still waits for the reader of its log")
	}
}

// TestPipeIsInterrupted: a signal ends a reaper whose configuration is a pipe without a writer.
func TestPipeIsInterrupted(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "config")
	iferr.Fatal(t, syscall.Mkfifo(fifo, 0o600))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(app.Interrupt{Signal: syscall.SIGTERM})
	for _, how := range []string{"--once", "--once=false"} {
		var errs bytes.Buffer
		status := make(chan int, 1)
		go func() { status <- run(ctx, []string{"--config", fifo, how}, strings.NewReader(""), io.Discard, &errs) }()
		select {
		case got := <-status:
			if got == 0 || !strings.Contains(errs.String(), "interrupted by a signal") {
				t.Errorf("%s: status %d, says %q", how, got, &errs)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it still waits for the pipe", how)
		}
		w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // the reaper's open returns
		iferr.Fatal(t, err)
		w.Close()
	}
}

// TestPipeInPlaceOfTheFile: if the configuration file is replaced by a pipe, the daemon refuses it, and
// reads the next file.
func TestPipeInPlaceOfTheFile(t *testing.T) {
	refusalEnds(t, func(file string) error {
		return cmp.Or(os.Remove(file), syscall.Mkfifo(file, 0o600))
	}, func(file string) error {
		return cmp.Or(os.Remove(file), os.WriteFile(file, []byte(before), 0o600))
	})
}

// fill writes to a pipe until it has no room.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	raw, err := pipe.SyscallConn()
	iferr.Fatal(t, err)
	var full error
	err = raw.Write(func(fd uintptr) bool {
		for full == nil {
			_, full = syscall.Write(int(fd), make([]byte, 4096))
		}
		return true
	})
	if err != nil || full != syscall.EAGAIN {
		t.Fatal(err, full)
	}
}
