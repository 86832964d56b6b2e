package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// answer is a standard input. A read of it calls f, and then returns the answer yes.
type answer struct{ f func() }

func (a *answer) Read(p []byte) (int, error) {
	a.f()
	return copy(p, "yes\n"), io.EOF
}

// TestBreakOfAConcurrentlyAttachedEntry: if a client attaches to a detached hold while the command
// asks, the command does not delete the entry before that client's hold has ended.
func TestBreakOfAConcurrentlyAttachedEntry(t *testing.T) {
	ens, locks := served(t)
	ticket, err := held(t, locks, "x").Detach(t.Context(), 0)
	iferr.Fatal(t, err)
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
	ticket, err := held(t, locks, "x").Detach(t.Context(), 0)
	iferr.Fatal(t, err)
	if _, errs, status := holdfast(t, "break", "x", "--yes", "--wait", "0"); status != 0 {
		t.Errorf("status %d, says %q", status, errs)
	}
	if len(ens.Dump(ticket.EntryPath())) != 0 {
		t.Error("the entry is still there")
	}
}

// TestBreakAsksOnItsOwnLine: if the answer comes from a pipe, the command ends the line of its
// question itself. Only the answers y and yes confirm, in upper or lower case.
func TestBreakAsksOnItsOwnLine(t *testing.T) {
	for answer, agreed := range map[string]bool{"": false, "no\n": false, "yes": true, "Y\n": true} {
		var errs bytes.Buffer
		cmd := new(cobra.Command)
		cmd.SetContext(t.Context())
		cmd.SetIn(strings.NewReader(answer))
		cmd.SetErr(&errs)
		err := new(breakFlags).ask(cmd, []admin.Contender{{Path: "/locks/a/x"}}, "a")
		if (err == nil) != agreed || !strings.HasSuffix(errs.String(), "Go on? (yes or no) \n") {
			t.Errorf("%q: %v, %q", answer, err, &errs)
		}
	}
}
