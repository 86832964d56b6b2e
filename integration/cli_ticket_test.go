package integration_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
)

// testRunTickets: a lock passes from one process to the next by a ticket, and a waiter does not
// enter in between. A command that fails leaves no ticket, a used ticket is refused, and the tokens
// differ.
func testRunTickets(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	locks, file := c.client(), filepath.Join(c.dir, "ticket")
	tokens := filepath.Join(c.dir, "tokens")
	script := `echo "$HOLDFAST_TOKEN" >> ` + tokens + `; exit 7`

	p := c.start("run", c.name, "--detach", file, "--", "false")
	p.mustExit(1)
	p.mustSay("the command failed with status 1: the lock is unlocked")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a ticket for a command that has failed: %v", err)
	}
	c.nothingLeft()

	p = c.start("run", c.name, "--detach", file, "--detach-failed", "--detach-for", "10m", "--", "sh", "-c", script)
	p.mustExit(7)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the ticket's file: %v, %v", info, err)
	}
	if listed := c.output("ls", c.name); !strings.Contains(listed, ", detached") {
		t.Errorf("ls says:\n%s", listed)
	}
	waiter := c.queued(locks, c.name, 2)
	for _, file := range []string{file, filepath.Join(c.dir, "no-such-file"), tokens} {
		p := c.start("run", "another", "--attach", file, "--", "true")
		p.mustExit(2)
		p.mustSay("--attach")
	}
	p = c.start("run", c.name, "--attach", file, "--wait", "0", "--", "true")
	p.mustExit(2)
	p.mustSay("--wait 0")
	p = c.start("run", c.name, "--detach", filepath.Join(file, "below"), "--", "true")
	p.mustExit(2)
	p.mustSay("--detach")

	used, err := os.ReadFile(file)
	iferr.Fatal(t, err)
	c.start("run", c.name, "--attach", file, "--detach", file, "--detach-failed", "--", "sh", "-c", script).mustExit(7)
	c.mustNotHave(waiter)

	stale := filepath.Join(c.dir, "stale")
	writeFile(t, stale, string(used))
	p = c.start("run", c.name, "--attach", stale, "--", "true")
	p.mustExit(1)
	p.mustSay(lock.ErrAttached.Error())

	text, err := os.ReadFile(file)
	iferr.Fatal(t, err)
	ticket, err := lock.ParseTicket(string(text))
	iferr.Fatal(t, err)
	hold, err := locks.Attach(c.ctx, ticket) // a service can attach to it, too
	iferr.Fatal(t, err)
	c.mustNotHave(waiter)
	if ticket, err = hold.Ticket(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, ticket.String())
	c.unlock(hold)
	next := <-waiter
	if next == nil {
		t.Fatal("the waiter has not got it")
	}
	c.unlock(next)
	p = c.start("run", c.name, "--attach", file, "--", "true")
	p.mustExit(1)
	p.mustSay(lock.ErrRemoved.Error())
	if _, err := os.Stat(file); err != nil {
		t.Errorf("a ticket that was of no use: %v", err)
	}

	seen, err := os.ReadFile(tokens)
	iferr.Fatal(t, err)
	if got := strings.Fields(string(seen)); len(got) != 2 || got[0] == got[1] || !strings.HasSuffix(hold.Token().String(), "-00000002") {
		t.Errorf("the commands had the tokens %q, and the last one %v", got, hold.Token())
	}
	c.nothingLeft()
}
