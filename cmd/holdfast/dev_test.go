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

// TestDevRefuses: a value out of range is a usage error that names the flag, the value and the rule.
func TestDevRefuses(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end() // ends a server that starts although dev should refuse
	for _, test := range []struct {
		args string
		says string
	}{
		{"--listen 0.0.0.0:2181", `--listen "0.0.0.0:2181": must be on loopback, such as 127.0.0.1:2181`},
		{"--listen 192.0.2.1:2181", `--listen "192.0.2.1:2181": must be on loopback`},
		{"--listen example.org:2181", `--listen "example.org:2181": must be on loopback`},
		{"--listen [::]:2181", `--listen "[::]:2181": must be on loopback`},
		{"--listen nonsense", `--listen "nonsense": must be a port or host:port`},
		{"--listen 65535 --members 2", `--listen "65535": must leave room for the ports of 2 members up to 65535`},
		{"--members 0", "--members 0: must be from 1 to 9"},
		{"--members 10", "--members 10: must be from 1 to 9"},
		{"--clock-skew 2", `invalid argument "2" for "--clock-skew"`},
		{"--clock-skew 25h", "--clock-skew 25h0m0s: must be at most 24h0m0s ahead or behind"},
		{"--clock-skew -25h", "--clock-skew -25h0m0s: must be at most"},
		{"x", `unknown command "x"`},
	} {
		var errs bytes.Buffer
		status := run(ended, append([]string{"dev"}, strings.Fields(test.args)...), strings.NewReader(""), io.Discard, &errs)
		if status != app.StatusUsage || !strings.Contains(errs.String(), test.says) {
			t.Errorf("dev %s: status %d, says %q; want %d and %q", test.args, status, &errs, app.StatusUsage, test.says)
		}
	}
}

// TestDevPortTaken: if the port is taken, the error names it and says to choose another port.
func TestDevPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().String()
	var errs bytes.Buffer
	if status := run(t.Context(), []string{"dev", "--listen", at}, strings.NewReader(""), io.Discard, &errs); status != app.StatusFailed || !strings.Contains(errs.String(), "holdfast: --listen \""+at+"\": choose another port") {
		t.Errorf("status %d, says %q", status, &errs)
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
