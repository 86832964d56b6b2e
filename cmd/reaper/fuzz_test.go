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

// FuzzCommandLine: a command line never panics, and has a documented exit status. If the status is not
// 0, the command prints an error. Each line of the input is an argument. The context has ended, so no
// command reaches ZooKeeper.
func FuzzCommandLine(f *testing.F) {
	for _, line := range []string{
		"", "help", "--help", "--version", "version", "nonsense", "-", "--", "--\n--once", "-x", "\x00", "\xff", "once",
		"--once", "--once\n--dry-run", "--once=perhaps", "--once=false", "--dry-run=1", "--root\nlocks", "--root=/", "--root", "--root=\x00\n--once",
		"completion\nbash", "completion\nnonsense", "__complete\n--", "help\nhelp",
	} {
		f.Add(line)
	}
	f.Setenv(app.EnvConfig, "")
	f.Setenv(app.EnvServers, "127.0.0.1:1")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("interrupted before it started"))
	documented := []int{0, 1, 2, 3}
	f.Fuzz(func(t *testing.T, line string) {
		var args []string
		if line != "" {
			args = strings.Split(line, "\n")
		}
		for _, arg := range args {
			if strings.HasPrefix(arg, "--servers") || strings.HasPrefix(arg, "--config") {
				t.Skip("would look up a host, or open a file, that the fuzzer thought of; package app has that")
			}
		}
		var out, errs bytes.Buffer
		status := run(ctx, args, strings.NewReader(""), &out, &errs)
		if !slices.Contains(documented, status) {
			t.Errorf("%q: status %d", args, status)
		}
		if status != 0 && !strings.HasPrefix(errs.String(), "reaper: ") {
			t.Errorf("%q: status %d, and it says %q", args, status, &errs)
		}
	})
}
