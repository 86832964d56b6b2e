//go:build linux

package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-io/holdfast/integration/pty"
)

// terminal returns both ends of a new pseudoterminal of 25 lines: ours for the test, theirs for a program.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, theirs = pty.Open(t)
	if err := unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: 120}); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// testReaperBar: a single sweep shows its progress only if standard error is a terminal. The report
// never shows the progress.
func testReaperBar(t *testing.T, bin string) {
	b := onShared(t)
	c := newReaper(b, bin)
	c.configure(fmt.Sprintf("zookeeper: {session_timeout: %v}\npolicies: [{name: all, match: \"**\", ttl: %v, grace: %v, orphan_after: 1s}]\n"+
		"reaper: {max_deletes_per_second: 3}\n", programSession, long, grace)) // slow, so that the sweep takes a while
	leave := func() {
		for i := range 3 {
			b.orphan(fmt.Sprintf("left%d", i), time.Second)
		}
	}
	leave()
	plain := c.start("--once")
	if r := plain.report(0); r.Total.Deleted != 6 {
		t.Errorf("%+v", r.Total)
	}
	if text := plain.Stderr(); strings.Contains(text, "sweeping") {
		t.Errorf("it shows a bar where there is no terminal: %q", text)
	}

	leave()
	ours, theirs := terminal(t)
	cmd := exec.CommandContext(b.ctx, c.prog, append(c.args, "--once")...)
	var report bytes.Buffer
	cmd.Stdout, cmd.Stderr = &report, theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	shown, err := io.ReadAll(ours)
	if err != nil && !errors.Is(err, syscall.EIO) { // reading fails with EIO when the program has ended
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, shown)
	}
	if text := string(shown); !strings.Contains(text, "sweeping") || !strings.Contains(text, "%") || !strings.Contains(text, "swept") {
		t.Errorf("the terminal shows %q, want a bar and the log", text)
	}
	if !strings.Contains(report.String(), `"root": "`+b.root+`"`) || strings.Contains(report.String(), "sweeping") {
		t.Errorf("standard output has %q, want the report alone", &report)
	}
}
