package main

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// answer is a standard input. A read of it calls f, and then returns the answer yes.
type answer struct{ f func() }

func (a *answer) Read(p []byte) (int, error) {
	a.f()
	return copy(p, "yes\n"), io.EOF
}

// served returns an in-memory ensemble and a client of it. It sets the environment so that commands
// connect to the ensemble.
func served(t *testing.T) (*locktest.Ensemble, *lock.Client) {
	t.Helper()
	ens, err := locktest.New(locktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ens.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go ens.Serve(l, ens.Servers()[0])
	t.Setenv(app.EnvConfig, "")
	t.Setenv(app.EnvServers, l.Addr().String())
	locks, err := lock.Dial(t.Context(), []string{l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return ens, locks
}

// TestBreakOfAConcurrentlyAttachedEntry: if a client attaches to a detached hold while the command
// asks, the command does not delete the entry before that client's hold has ended.
func TestBreakOfAConcurrentlyAttachedEntry(t *testing.T) {
	ens, locks := served(t)
	first, err := locks.Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := first.Detach(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var hold *lock.Hold
	attach := func() {
		if hold, err = locks.Attach(t.Context(), ticket); err != nil {
			t.Fatal(err)
		}
	}
	var errs strings.Builder
	status := run(t.Context(), []string{"break", "x", "--wait", "50ms"}, &answer{attach}, io.Discard, &errs)
	if status != app.StatusFailed || !strings.Contains(errs.String(), "not all entries") {
		t.Errorf("status %d, says %q", status, &errs)
	}
	if len(ens.Dump(hold.EntryPath())) == 0 && hold.Err() == nil {
		t.Error("the entry went before its holder knew")
	}
}

// TestBreakOfADetachedEntry: an entry to which no client is attached is deleted at once, even with
// --wait 0.
func TestBreakOfADetachedEntry(t *testing.T) {
	ens, locks := served(t)
	hold, err := locks.Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := hold.Detach(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	if status := run(t.Context(), []string{"break", "x", "--yes", "--wait", "0"}, strings.NewReader(""), io.Discard, &errs); status != 0 {
		t.Errorf("status %d, says %q", status, &errs)
	}
	if len(ens.Dump(ticket.EntryPath())) != 0 {
		t.Error("the entry is still there")
	}
}

// TestBreakOfNoEntry: an empty --entry, for example from an unset variable of a script, is refused,
// and the hold stays.
func TestBreakOfNoEntry(t *testing.T) {
	_, locks := served(t)
	hold, err := locks.Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	status := run(t.Context(), []string{"break", "x", "--entry", "", "--yes", "--now"}, strings.NewReader(""), io.Discard, &errs)
	if status != app.StatusUsage || !strings.Contains(errs.String(), "must not be empty") {
		t.Errorf("status %d, says %q", status, &errs)
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}
