//go:build linux

package integration_test

import (
	"encoding/json"
	"fmt"
	"os/user"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// testRunAtLeast: run keeps the lock of a short command for the time of --at-least, or until run
// gets a signal, or until the lock is lost. Only then do the hooks of --on-risk and --on-lost run.
func testRunAtLeast(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin, fmt.Sprintf("{name: capped, match: capped, ttl: %v, grace: %v, max_hold: %v}", ttl, grace, 2*ttl), short)
	locks := c.client()
	begun := time.Now()
	const least = 3 * time.Second
	p := c.start("run", c.name, "--at-least", least.String(), "--on-risk", "echo risk", "--on-lost", "echo lost", "--", "sh", "-c", "echo done; exit 3")
	if line := p.line(); line != "done" {
		t.Errorf("the command says %q", line)
	}
	c.unlock(<-c.queued(locks, c.name, 2))
	if had := time.Since(begun); had < least {
		t.Errorf("the lock was had for %v, want %v", had, least)
	}
	p.mustExit(3)
	if said := p.Stderr(); strings.Contains(said, "risk") || strings.Contains(said, "lost") {
		t.Errorf("the hold was neither at risk nor lost, and it says %q", said)
	}

	p = c.start("run", c.name, "--at-least", "1h", "--", "sh", "-c", `trap "" TERM; echo done`)
	p.line()
	next := c.queued(locks, c.name, 2)
	p.signal(syscall.SIGTERM)
	p.mustExit(0)
	c.unlock(<-next)

	p = c.start("run", c.name, "--at-least", "1h", "--on-lost", `echo "lost: $HOLDFAST_WHY"`, "--", "sh", "-c", "echo $$")
	p.line() // the command may have ended by now
	c.eventually("the guard is gone, and with it the command", func() bool { return len(c.processes("holdfast-guard", c.name)) == 0 })
	entry := c.contenders(locks, c.name)[0].Path
	c.byHand(entry)
	iferr.Fatal(t, c.raw.Delete(entry, -1))
	p.mustExit(0) // the command ended with status 0 while it had the lock
	p.mustSay("the command has ended, but its lock was not held for 1h0m0s")
	p.mustSay("lost: lock \"" + c.name + "\": hold was lost: entry was removed (entry " + entry)

	p = c.start("run", "capped", "--at-least", (2*ttl + 1).String(), "--", "true")
	p.mustExit(2)
	p.mustSay("must not be longer than max_hold, " + (2 * ttl).String() + `, of policy "capped"`)
}

// testRunRevoke: another client's request to release the lock runs the --on-revoke hook. The hook
// can end the command.
func testRunRevoke(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	stop := t.TempDir() + "/stop"
	p := c.start("run", c.name, "--on-revoke", `echo "asked by $HOLDFAST_WHO: $HOLDFAST_WHY"; echo now >"`+stop+`"`, "--",
		"sh", "-c", "echo begun; while ! [ -e '"+stop+"' ]; do sleep 0.01; done; exit 4")
	p.line()
	r := c.start("revoke", c.name, "--reason", "drained; $(exit)", "--json")
	var asked struct {
		Entries []struct{ Entry, Owner, Result string }
	}
	iferr.Fatal(t, json.Unmarshal([]byte(r.rest()), &asked))
	r.mustExit(0)
	if len(asked.Entries) != 1 || asked.Entries[0].Owner != "sh" || asked.Entries[0].Result != "asked" || !strings.HasPrefix(asked.Entries[0].Entry, c.root+"/"+c.name+"/") {
		t.Errorf("asked: %+v", asked)
	}
	p.mustExit(4)
	me, err := user.Current() // the user of the request, as break names it too
	iferr.Fatal(t, err)
	p.mustSay("asked by " + me.Username + " (host ")
	p.mustSay("): drained; $(exit)")

	r = c.start("revoke", c.name)
	r.mustExit(1)
	r.mustSay("lock is not held")
	r = c.start("revoke", "/x")
	r.mustExit(2)
	r.mustSay("must not start with a slash")
}
