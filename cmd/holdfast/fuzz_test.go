package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

// FuzzCommandLine runs a command line, one argument a line, with a context that has ended, so no
// command reaches ZooKeeper. It must not panic, and must end with a documented exit status. If that
// is not 0, it must print an error.
func FuzzCommandLine(f *testing.F) {
	for _, line := range []string{
		"", "help", "--help", "--version", "version", "version\nx", "help\nrun", "help\nnonsense", "nonsense", "-", "--", "-x", "\x00", "\xff",
		"ls", "ls\n", "ls\n/", "ls\na\nb", "ls\n--json\n--all", "ls\n--json=perhaps", "ls\n--root\nlocks", "ls\n--root=/", "ls\n--root",
		"run", "run\nx", "run\nx\n--", "run\nx\n--\ntrue", "run\n--\nx\ntrue", "run\nx\ny\n--\ntrue", "run\nx\n--wait\n-1s\n--\ntrue",
		"run\nx\n--wait\n0\n--ttl\n1s\n--\ntrue", "run\nx\n--ttl\n1ns\n--\ntrue", "run\nx\n--ttl\n9223372036854775807ns\n--\ntrue",
		"run\nx\n--ttl\n1h0m0.0005s\n--\ntrue", "run\n/x\n--\ntrue", "run\nx\n--\nno-such-command", "run\nx\n--\n/", "run\nx\n--\n", "run\nx\n--\n\x00",
		"revoke", "revoke\nx", "revoke\n/x", "revoke\nx\n--reason\n\xff", "revoke\nx\n--reason=why",
		"show", "show\nx", "show\n/x", "top", "top\nx", "top\n--sort\nsize", "ls\n*", "ls\na**", "ls\n--watch\n--interval\n0s", "ls\n-w",
		"break", "break\nx", "break\n/x", "break\nx\n--yes", "break\nx\n--json", "break\nx\n--entry\ny\n--expired-only", "break\nx\n--now\n--wait\n1s",
		"break\nx\n--wait\n-1s", "sweep", "sweep\n--dry-run", "sweep\nx", "policy", "policy\ntest", "policy\ntest\nx\ny\n--json", "policy\ntest\n/x",
		"doctor", "doctor\n--list", "doctor\n--list\n--json", "doctor\n--watch-clock\n-1s", "__complete\nshow\n", "version\n--json",
		"demo\n--reaper\n/no/such/file", "demo\nx",
		"dev\n--listen\n127.0.0.1:0\n--members\n3", "dev\n--listen\n0.0.0.0:1", "dev\n--members\n-1", "dev\n--clock-skew\n9e9h", "completion\nbash", "completion\nnonsense", "__complete\nrun\n", "help\nhelp\nhelp",
	} {
		f.Add(line)
	}
	f.Setenv(app.EnvConfig, "")
	f.Setenv(app.EnvServers, "127.0.0.1:1")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("interrupted before it started"))
	documented := []int{0, 1, 2, 75, 126, 127}
	f.Fuzz(func(t *testing.T, line string) {
		var args []string
		if line != "" {
			args = strings.Split(line, "\n")
		}
		for _, arg := range args {
			if strings.HasPrefix(arg, "--servers") || strings.HasPrefix(arg, "--config") || arg == "config" {
				t.Skip("would look up a host, or open a file, that the fuzzer thought of; package app has that")
			}
		}
		var out, errs bytes.Buffer
		status := run(ctx, args, strings.NewReader(""), &out, &errs)
		if !slices.Contains(documented, status) {
			t.Errorf("%q: status %d", args, status)
		}
		if status != 0 && !strings.HasPrefix(errs.String(), "holdfast: ") {
			t.Errorf("%q: status %d, and it says %q", args, status, &errs)
		}
	})
}
