package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

func TestEffectiveTTL(t *testing.T) {
	cfg, err := config.Parse("config.yaml", []byte(`policies: [{name: quick, match: quick, ttl: 500ms}, {name: slow, match: "slow/*", ttl: 5m, max_ttl: 10m}]`))
	iferr.Fatal(t, err)
	for _, test := range []struct {
		name  string
		asked time.Duration
		want  time.Duration
		err   string
	}{
		{"x", 0, 30 * time.Second, ""},
		{"x", time.Second, time.Second, ""},
		{"slow/1", 0, 5 * time.Minute, ""},
		{"slow/1", 10 * time.Minute, 10 * time.Minute, ""},
		{"slow/1", 11 * time.Minute, 0, `lock "slow/1", policy "slow": invalid argument: ttl 11m0s: must be at most max_ttl, which is 10m0s`},
		{"quick", 0, 0, `ttl 500ms of lock "quick": must be at least 1s, to end a command in time; --ttl gives another than policy "quick"`},
		{"quick", 2 * time.Second, 2 * time.Second, ""},
		{"x", time.Second - 1, 0, "must be at least 1s"},
		{"x", -time.Second, 0, "must be at least 1s"},
		{"x", time.Second + 1, 0, "must be whole milliseconds"},
		{"/x", 0, 0, `lock name "/x": must not start with a slash`},
		{"", 0, 0, "lock name is empty"},
	} {
		got, err := effectiveTTL(cfg, test.name, test.asked)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("effectiveTTL(%q, %v) = %v, %v; want %v, %s", test.name, test.asked, got, err, test.want, test.err)
		}
		if err != nil && app.Status(t.Context(), err) != app.StatusUsage {
			t.Errorf("%v has status %d", err, app.Status(t.Context(), err))
		}
	}
}

func TestNotAcquired(t *testing.T) {
	for want, errs := range map[int][]error{
		statusNotAcquired: {
			fmt.Errorf("x: %w", lock.ErrUnavailable),
			&lock.HeldError{Lock: "x"},
			fmt.Errorf("x: %w: %w", &lock.HeldError{Lock: "x"}, context.DeadlineExceeded),
			context.DeadlineExceeded,
		},
		app.StatusFailed: {lock.ErrForeign, lock.ErrKind, lock.ErrDenied, errors.New("x")},
		app.StatusUsage:  {lock.ErrInvalid},
	} {
		for _, err := range errs {
			if got := app.Status(t.Context(), notAcquired(t.Context(), err)); got != want {
				t.Errorf("%v: status %d, want %d", err, got, want)
			}
		}
	}
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(app.Interrupt{Signal: 15})
	err := fmt.Errorf("%w: %w", &lock.HeldError{Lock: "x"}, context.Canceled)
	if got := app.Status(interrupted, notAcquired(interrupted, err)); got != 128+15 {
		t.Errorf("interrupted: status %d, want %d", got, 128+15)
	}
}

// TestRunStatus: the exit status and the error of run if the lock is held, ZooKeeper is silent, or the
// command cannot run.
func TestRunStatus(t *testing.T) {
	_, locks := served(t)
	hold := held(t, locks, "taken")
	file := func(name, text string, mode os.FileMode) (path string) {
		path = filepath.Join(t.TempDir(), name)
		iferr.Fatal(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	silent := localhost.Silent(t)
	for _, test := range []struct {
		want       int
		says, args string
	}{
		{7, "", "x -- " + file("seven", "#!/bin/sh\nexit 7\n", 0o700)},
		{75, "held by another contender", "taken --wait 0 -- true"},
		{75, "", "taken --wait 0 -q -- true"},
		{75, "not acquired within --wait; holdfast show taken tells more", "taken --wait 5s -- true"},
		{9, "held by another contender", "taken --wait 0 --held-status 9 -- true"},
		{9, "", "taken --wait 0 --held-status 9 --quiet -- true"},
		{75, "no session with ZooKeeper within 200ms, tried " + silent, "x --wait 200ms -q --held-status 9 --servers " + silent + " -- true"},
		{126, "", "x -- " + file("binary", "\x00\x01", 0o700)}, // the started process itself says why
		{126, "ends in a carriage return", "x --servers " + silent + " -- " + file("dos", "#!/bin/sh\r\ntrue\r\n", 0o700)},
		{126, "permission denied", "x --servers " + silent + " -- " + file("text", "", 0o600)},
		{127, "executable file not found", "x --servers " + silent + " -- no-such-program"},
		{127, "no such file", "x --servers " + silent + " -- /no/such/program"},
	} {
		args := append([]string{"run"}, strings.Split(test.args, " ")...)
		_, errs, status := holdfast(t, args...)
		if status != test.want || !strings.Contains(errs, test.says) || test.says == "" && errs != "" {
			t.Errorf("%s: status %d, want %d: %s", test.args, status, test.want, errs)
		}
	}
	iferr.Error(t, hold.Unlock())
}

func TestEnvironment(t *testing.T) {
	ours := []string{"A=1", "HOLDFAST_LOCK=outer", "HOLDFAST_LOCKS=kept", "EMPTY=", "HOLDFAST_TOKEN=7", "B=x=y"}
	token, err := lock.ParseToken("0000000100000005")
	iferr.Fatal(t, err)
	got := environment(append(ours, "SECRET=x", "SECRETS=y"), "inner/lock", token, []string{"SECRET"})
	want := []string{"A=1", "HOLDFAST_LOCKS=kept", "EMPTY=", "B=x=y", "SECRETS=y", "HOLDFAST_LOCK=inner/lock", "HOLDFAST_TOKEN=0000000100000005"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if ours[1] != "HOLDFAST_LOCK=outer" {
		t.Errorf("our own has changed: %q", ours)
	}
}

// TestCommandGetsNoPasswords: neither the environment nor the arguments of the command of run, with --tick
// or without, have a password of the connection.
func TestCommandGetsNoPasswords(t *testing.T) {
	served(t)
	folder := t.TempDir()
	file, seen := filepath.Join(folder, "config.yaml"), filepath.Join(folder, "seen")
	t.Setenv("HOLDFAST_TEST_PASSWORD", "hunter2")
	iferr.Fatal(t, os.WriteFile(file, []byte("zookeeper: {auth: {user: u, password_env: HOLDFAST_TEST_PASSWORD}}\n"), 0o600))
	for _, args := range [][]string{{"run", "x"}, {"run", "x", "--tick", "@every 1s"}} {
		command := []string{"--config", file, "--", "sh", "-c", `env >"$1"; echo "$@" >>"$1"`, "sh", seen}
		if _, errs, status := holdfast(t, slices.Concat(args, command)...); status != 0 {
			t.Fatalf("%q: status %d: %s", args, status, errs)
		}
		got, err := os.ReadFile(seen)
		if err != nil || !strings.Contains(string(got), "HOLDFAST_LOCK=") || strings.Contains(string(got), "hunter2") {
			t.Errorf("%q: %v, the command gets\n%s", args, err, got)
		}
		iferr.Fatal(t, os.Remove(seen))
	}
}

func TestOwner(t *testing.T) {
	for command, want := range map[string]int{"/usr/bin/backup.sh": 1, "make": 1, strings.Repeat("x", 300): 0, "\xff": 0} {
		if got := len(owner(command)); got != want {
			t.Errorf("owner(%.20q) gives %d options, want %d", command, got, want)
		}
	}
}

// TestDetachWithoutTicket: a ticket file that cannot be written is refused before the command runs. If
// the file becomes unwritable while the command runs, run fails, or exits with the status of a failed
// command. In all cases the lock is free afterwards.
func TestDetachWithoutTicket(t *testing.T) {
	_, locks := served(t)
	folder := t.TempDir()
	ran, link := filepath.Join(folder, "ran"), filepath.Join(folder, "link")
	iferr.Fatal(t, os.Symlink(ran, link)) // like /dev/stdout: the rename would replace it
	below := filepath.Join(folder, "below")
	for _, test := range []struct {
		file, command string
		status        int
		says          string
	}{
		{folder, "true", app.StatusUsage, "must be a regular file, or none yet"},
		{link, "true", app.StatusUsage, "must be a regular file, or none yet"},
		{"/proc/ticket", "true", app.StatusUsage, "--detach /proc/ticket: "},
		{filepath.Join(below, "ticket"), "rmdir " + below, app.StatusFailed, "write the ticket"},
		{filepath.Join(below, "ticket"), "rmdir " + below + "; exit 7", 7, ""},
	} {
		iferr.Fatal(t, os.MkdirAll(below, 0o700))
		_, errs, status := holdfast(t, "run", "x", "--detach", test.file, "--detach-failed", "--", "sh", "-c", "touch "+ran+"; "+test.command)
		if status != test.status || !strings.Contains(errs, test.says) {
			t.Errorf("%s, %s: status %d: %s", test.file, test.command, status, errs)
		}
		if _, err := os.Stat(ran); (err == nil) != (test.status != app.StatusUsage) {
			t.Errorf("%s: the command has run: %v", test.file, err == nil)
		}
		if hold, err := locks.Mutex("x").TryLock(t.Context()); err != nil {
			t.Errorf("%s: the lock is not free: %v", test.file, err)
		} else {
			hold.Unlock()
		}
	}
	if names, err := os.ReadDir(folder); err != nil || len(names) != 2 {
		t.Errorf("left in the folder: %v, %v", names, err)
	}
}

// TestRunWithoutServerDoesNotWaitForTheLock: a command that has not reached ZooKeeper does not tell
// the user that it waits for the lock.
func TestRunWithoutServerDoesNotWaitForTheLock(t *testing.T) {
	defer func(old time.Duration) { patience = old }(patience)
	patience = time.Millisecond
	t.Setenv(app.EnvConfig, "")
	t.Setenv(app.EnvServers, "127.0.0.1:1")
	said := stderrOf(t, func() {
		if _, _, status := holdfast(t, "run", "x", "--wait", "300ms", "--", "true"); status != statusNotAcquired {
			t.Errorf("status %d", status)
		}
	})
	if strings.Contains(said, "waiting for lock") {
		t.Error(said)
	}
}

// TestRunTellsWhatItWaitedFor: if the time is over while the session's server is silent, the error says
// what was waited for.
func TestRunTellsWhatItWaitedFor(t *testing.T) {
	for _, args := range [][]string{{"run", "x", "--wait", "500ms"}, {"run", "x", "--tick", "@every 1s", "--wait", "500ms"}} {
		ens, _ := served(t)
		silent := true
		ens.Intercept(func(r locktest.Request) locktest.Fault {
			if !silent || !strings.Contains(strings.Join(r.Paths, " "), "/x") {
				return locktest.Fault{}
			}
			silent = false
			return locktest.Fault{Delay: 1500 * time.Millisecond}
		})
		_, errs, status := holdfast(t, append(args, "--", "true")...)
		want := "ZooKeeper did not answer in time, tried " + os.Getenv(app.EnvServers) + "; holdfast doctor tells more"
		if status != statusNotAcquired || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d: %s", args, status, errs)
		}
	}
}
