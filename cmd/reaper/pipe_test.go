//go:build unix

package main

import (
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

// TestUnreadLog: a log that nobody reads does not keep a daemon from ending.
func TestUnreadLog(t *testing.T) {
	t.Setenv(app.EnvConfig, "")
	t.Setenv(app.EnvServers, "127.0.0.1:1")
	unread, errs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
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

// fill writes to a pipe until it has no room.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	raw, err := pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
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
