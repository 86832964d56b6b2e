package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

// TestDevPortTaken: if the port is taken, the error names it and says to choose another port.
func TestDevPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().String()
	if _, errs, status := holdfast(t, "dev", "--listen", at); status != app.StatusFailed || !strings.Contains(errs, "holdfast: --listen \""+at+"\": choose another port") {
		t.Errorf("status %d, says %q", status, errs)
	}
}

// TestDevEnds: the command serves until its context ends, and then succeeds.
func TestDevEnds(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "localhost:0", "[::1]:0", "0"} {
		if l, err := net.Listen("tcp", "[::1]:0"); err != nil && listen == "[::1]:0" {
			continue // without IPv6
		} else if err == nil {
			l.Close()
		}
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		status := make(chan int, 1)
		var errs bytes.Buffer
		go func() {
			status <- run(ctx, []string{"dev", "--members", "2", "--listen", listen}, strings.NewReader(""), in, &errs)
		}()
		first := make([]byte, 200)
		n, err := out.Read(first)
		if line := string(first[:n]); err != nil || !strings.HasPrefix(line, "ZooKeeper in memory at ") || !strings.Contains(line, "all its data is gone") {
			t.Errorf("%s: it begins with %q, %v", listen, line, err)
		}
		cancel()
		if got := <-status; got != 0 || errs.Len() > 0 {
			t.Errorf("%s: status %d, says %q", listen, got, &errs)
		}
	}
}
