//go:build linux

package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/pty"
	"github.com/holdfast-io/holdfast/lock"
)

// decode reads the JSON document that a command prints.
func decode[T any](c *cli, args ...string) (doc T) {
	c.Helper()
	iferr.Fatal(c, json.Unmarshal([]byte(c.output(args...)), &doc))
	return doc
}

// fails runs holdfast, which must exit with the status and print says to standard error.
func (c *cli) fails(status int, says string, args ...string) {
	c.Helper()
	p := c.start(args...)
	p.rest()
	p.mustExit(status)
	p.mustSay(says)
}

// testTools: ls, show, doctor and sweep print what a server has. Shells complete the names of locks.
func testTools(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	if got := c.output("ls"); !strings.Contains(got, "there is no node "+c.root+": ") {
		t.Errorf("ls of nothing: %q", got)
	}
	hold := c.lock(c.client(lock.WithOwner("shop")), "orders/42")
	type entry struct{ Entry, Token, Owner string }
	type locks []struct {
		Name    string
		Holders []entry
	}
	holder := []entry{{hold.EntryPath(), hold.Token().String(), "shop"}}
	want := locks{{"orders/42", holder}}
	if listed := decode[struct{ Locks locks }](c, "ls", "--json"); !reflect.DeepEqual(listed.Locks, want) {
		t.Errorf("ls: %+v, want %+v", listed, want)
	}
	if shown := decode[struct{ Holders []entry }](c, "show", "orders/42", "--json"); !reflect.DeepEqual(shown.Holders, holder) {
		t.Errorf("show: %+v, want %+v", shown, holder)
	}
	c.fails(1, "did you mean orders/42?", "show", "ordesr/42")
	completes := exec.Command(c.prog, slices.Concat([]string{"__complete", "show"}, c.args, []string{"orders/"})...)
	if out, err := completes.Output(); err != nil || !strings.HasPrefix(string(out), "orders/42\n") {
		t.Errorf("completion: %v, %s", err, out)
	}
	found := decode[struct {
		Findings []struct{ ID, Severity string }
		Fine     []string
	}](c, "doctor", "--json", "--watch-clock", "1s")
	absent := false
	for _, f := range found.Findings {
		absent = absent || f.ID == "reaper-absent"
		if f.Severity == "error" {
			t.Errorf("doctor: %+v", f)
		}
	}
	if !absent || !slices.Contains(found.Fine, "server-unsupported") {
		t.Errorf("doctor: %+v", found)
	}
	c.unlock(hold)

	c.orphan("dead", 0)
	swept := decode[struct {
		Total struct{ Expired, Deleted int }
	}](c, "sweep", "--json").Total
	if swept.Expired != 1 || swept.Deleted == 0 {
		t.Errorf("sweep: %+v", swept)
	}
	for _, node := range c.nodes() { // sweep deletes no young parent
		if err := c.deleteEmpty(node); err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Error(err)
		}
	}
}

// testBreak: the holder learns who force-released the lock and why. The next waiter enters after
// the holder's processes have ended.
func testBreak(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin, short)
	locks := c.client()
	p := c.start("run", c.name, "--", "sh", "-c", stubborn)
	dead := p.pids()
	next := c.queued(locks, c.name, 2)

	refused := c.start("break", c.name)
	iferr.Fatal(t, refused.Tell("no"))
	refused.mustExit(1)
	refused.mustSay("nothing was done, because the answer was not yes")
	c.mustNotHave(next)

	entry := c.contenders(locks, c.name)[0].Path
	doc := decode[struct {
		Entries []struct{ Entry, Result string }
	}](c, "break", c.name, "--yes", "--json", "--reason", "it hangs")
	if len(doc.Entries) != 1 || doc.Entries[0].Entry != entry || doc.Entries[0].Result != "gone" {
		t.Errorf("%+v", doc)
	}
	p.mustExit(76)
	p.mustSay("hold was lost: hold was broken by ")
	p.mustSay("it hangs")
	c.mustEnter(next, dead)
	c.fails(1, "lock is not held", "break", c.name, "--yes")

	// The entry of a crashed holder is deleted when its lease has ended, or immediately with --now.
	for _, how := range [][]string{{"break", c.name, "--yes"}, {"break", c.name, "--yes", "--now"}, {"break", c.name, "--yes", "--expired-only"}} {
		p := c.holderFor(c.name, 2*ttl) // long enough for a command before its end
		p.says("held")
		p.Kill()
		if how[len(how)-1] == "--expired-only" {
			c.fails(1, "has expired", how...)
			c.eventually("it has expired", func() bool {
				out := c.start(how...)
				out.rest()
				return out.status() == 0
			})
		} else if out := c.output(how...); !strings.HasPrefix(out, "gone: ") {
			t.Errorf("%v: %s", how, out)
		}
		if left := c.contenders(locks, c.name); len(left) > 0 {
			t.Errorf("%v: left %+v", how, left)
		}
	}
	for _, wrong := range [][]string{{"--json"}, {"--now", "--wait", "1s"}, {"--expired-only", "--now"}, {"--wait", "-1s"}} {
		c.fails(2, "holdfast: --", append([]string{"break", c.name}, wrong...)...)
	}
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	writeFile(t, file, text)
	return file
}

// testWithoutServer: commands that need no server work without a server.
func testWithoutServer(t *testing.T, bin string) {
	good := writeConfig(t, "policies: [{name: imports, match: \"imports/*\", ttl: 5m}, {name: all, match: \"**\"}]")
	bad := writeConfig(t, "policies: [{name: x, match: \"x\", ttl: 50ms, ttk: 1s}]")
	rooted := writeConfig(t, "roots: [{name: team, root: /team, reaper: {concurrency: 5000}}]")
	secret := writeConfig(t, "roots: [{name: team, root: /team, zookeeper: {auth: {user: team, password_file: nowhere}}}]")
	several := writeConfig(t, "roots: [{name: a, root: /a}, {name: b, root: /b, policies: [{name: own, match: \"**\"}]}]")
	for _, test := range []struct {
		status int
		says   string
		args   []string
	}{
		{0, "the last is default; the reaper's roots are a, b\n", []string{"config", "check", several}},
		{0, "this does not look at: --root chooses one", []string{"policy", "test", "x", "--config", several}},
		{0, "own applies", []string{"policy", "test", "x", "--config", several, "--root", "/b"}},
		{0, "own applies", []string{"policy", "test", "x", "--config", several, "--root", "b"}},
		{2, "or the name of a root", []string{"policy", "test", "x", "--config", several, "--root", "c"}},
		{2, `root \"team\": `, []string{"config", "check", "--json", rooted}},
		{2, "reaper.concurrency 5000: must be from 1 to 1000", []string{"config", "check", rooted}},
		{0, "is fine", []string{"config", "check", secret}},
		{2, "roots[0].zookeeper.auth.password_file: ", []string{"config", "check", "--passwords", secret}},
		{0, good + " is fine: 2 policies, the last is all\n", []string{"config", "check", good}},
		{2, "policies[0].ttl: 50ms: must be at least 100ms", []string{"config", "check", good, bad}},
		{2, `"ok": false`, []string{"config", "check", bad, "--json"}},
		{2, "no such file", []string{"config", "check", good + "x"}},
		{2, "name it, as in", []string{"config", "check"}},
		{0, "imports does not match \"imports/*\"", []string{"policy", "test", "orders", "--config", good}},
		{0, `"policy": "imports"`, []string{"policy", "test", "imports/a", "--config", good, "--json"}},
		{2, "lock name", []string{"policy", "test", "/x", "--config", good}},
		{0, `"go": "go1.`, []string{"version", "--json"}},
		{2, "top needs a terminal", []string{"top"}},
		{2, `unknown command "tcsh" for "holdfast completion"`, []string{"completion", "tcsh"}},
		{0, "Available Commands:", []string{"policy"}},
		{2, "want the name of a lock", []string{"policy", "test"}},
		{0, "complete -o default", []string{"completion", "bash"}},
	} {
		cmd := exec.Command(filepath.Join(bin, "holdfast"), test.args...)
		cmd.Env = append(os.Environ(), "HOLDFAST_ZOOKEEPER=127.0.0.1:1", "HOLDFAST_CONFIG=")
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != test.status || !strings.Contains(string(out), test.says) {
			t.Errorf("%q: status %d, want %d: %s", test.args, got, test.status, out)
		}
	}
}

// testTop: on a terminal, top shows the locks, sorts them by the key pressed, and restores the
// terminal.
func testTop(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	locks := c.client(lock.WithOwner("shop"))
	hold := c.lock(locks, c.name)
	next := c.queued(locks, c.name, 2)
	master, slave := pty.Open(t) // without a size, as a serial console
	cmd := exec.Command(c.prog, slices.Concat([]string{"top", "--interval", "100ms"}, c.args)...)
	cmd.Env = append(os.Environ(), "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	iferr.Fatal(t, cmd.Start())
	slave.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })

	var mu sync.Mutex
	var screen bytes.Buffer
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			mu.Lock()
			screen.Write(buf[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	shows := func(what string, words ...string) {
		t.Helper()
		c.eventually(what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(screen.String(), w) })
		})
	}
	shows("the lock is shown", c.name, "1 lock, 1 waiting", "shop (", "sorted by waiters")
	iferr.Fatal(t, iferr.Of(master.WriteString("n")))
	shows("it is sorted by name", "sorted by name")
	c.unlock(hold)
	c.unlock(<-next)
	shows("the lock has gone", "0 locks, 0 waiting")
	iferr.Fatal(t, iferr.Of(master.WriteString("q")))
	iferr.Error(t, <-ended)
	shows("the terminal is given back", "\x1b[?25h\x1b[?1049l")
}
