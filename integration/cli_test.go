//go:build linux

package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"golang.org/x/sys/unix"
)

// TestCommandLine runs the tests that need the programs, which it builds once.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	bin := programs(t)
	for name, test := range map[string]func(t *testing.T, bin string){
		"Ls":              testLs,
		"LsOfNothing":     testLsOfNothing,
		"Show":            testShow,
		"Top":             testTop,
		"Break":           testBreak,
		"Sweep":           testSweepCommand,
		"Doctor":          testDoctor,
		"WithoutServer":   testWithoutServer,
		"Environment":     testRunEnvironment,
		"Status":          testRunStatus,
		"Waiting":         testRunWaiting,
		"Tickets":         testRunTickets,
		"Signals":         testRunSignals,
		"Interrupted":     testRunInterrupted,
		"Children":        testRunChildren,
		"StuckStderr":     testRunStuckStderr,
		"MaxHold":         testRunMaxHold,
		"Outage":          testRunOutage,
		"Killed":          testRunKilled,
		"Stopped":         testRunStopped,
		"GuardKilled":     testRunGuardKilled,
		"AtLeast":         testRunAtLeast,
		"Revoke":          testRunRevoke,
		"Kerberos":        testKerberos,
		"SASL":            testSASL,
		"Demo":            testDemo,
		"DemoInterrupted": testDemoInterrupted,
		"ReaperOnce":      testReaperOnce,
		"ReaperSkips":     testReaperSkips,
		"ReaperOutage":    testReaperOutage,
		"ReaperPage":      testReaperPage,
		"Reload":          testReaperReload,
		"Roots":           testReaperRoots,
		"RootsChange":     testReaperRootsChange,
		"Bar":             testReaperBar,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bin)
		})
	}
}

// cli runs a program on a bench, with a configuration of its own.
type cli struct {
	*bench
	dir  string   // folder for files
	args []string // flags of every command
	name string   // name of a lock that only this test uses on this machine
	prog string
}

func newCLI(b *bench, bin string, policies ...string) *cli {
	b.Helper()
	c := &cli{bench: b, dir: b.TempDir(), prog: filepath.Join(bin, "holdfast"), name: "cli-" + strings.TrimPrefix(b.root, "/it-")}
	config := filepath.Join(c.dir, "config.yaml")
	policies = append(policies, fmt.Sprintf("{name: all, match: \"**\", ttl: %v, grace: %v}", long, grace))
	text := fmt.Sprintf("zookeeper: {session_timeout: %v}\npolicies: [%s]\n", programSession, strings.Join(policies, ", "))
	writeFile(b, config, text)
	c.args = []string{"--config", config, "--servers", strings.Join(b.servers, ","), "--root", b.root}
	return c
}

// programSession is the session timeout of the programs. The programs also wait for a session for
// at most this time.
const programSession = 30 * time.Second

// short is a policy for commands whose leases end in a test.
var short = fmt.Sprintf("{name: short, match: \"*\", ttl: %v, grace: %v}", ttl, grace)

// program is a process of holdfast or the reaper.
type program struct {
	*cli
	*process
}

// start starts the program with the arguments, the first of which may be a subcommand.
func (c *cli) start(args ...string) *program {
	c.Helper()
	return &program{c, c.bench.start(exec.Command(c.prog, slices.Concat(args[:min(1, len(args))], c.args, args[min(1, len(args)):])...))}
}

// pids waits for a line with process ids, and returns those processes.
func (p *program) pids() (all watched) {
	p.Helper()
	for _, word := range strings.Fields(p.line()) {
		pid, err := strconv.Atoi(word)
		iferr.Fatal(p, err)
		all = append(all, p.watch(pid))
	}
	return all
}

func (p *program) signal(s os.Signal) {
	p.Helper()
	iferr.Fatal(p, p.Signal(s))
}

// status waits until the process has ended and returns its exit status.
func (p *program) status() int {
	p.Helper()
	select {
	case <-p.Exited():
		return p.ExitCode()
	case <-p.ctx.Done():
		p.Fatalf("does not end: %v", p.cmd)
		return 0
	}
}

func (p *program) mustExit(want int) {
	p.Helper()
	if got := p.status(); got != want {
		p.Errorf("exit status %d, want %d: %v", got, want, p.cmd)
	}
}

func (p *program) mustSay(text string) {
	p.Helper()
	if got := p.Stderr(); !strings.Contains(got, text) {
		p.Errorf("standard error is %q, want %q in it", got, text)
	}
}

// output runs holdfast, which must succeed, and returns what it printed.
func (c *cli) output(args ...string) string {
	c.Helper()
	p := c.start(args...)
	out := p.rest()
	p.mustExit(0)
	return out
}

// queued requests the lock for a client, and waits until the lock has n contenders or the client
// holds it. The channel receives the hold, or nil if the request failed.
func (c *cli) queued(locks *lock.Client, name string, n int) <-chan *lock.Hold {
	c.Helper()
	ctx, cancel := context.WithCancel(c.ctx)
	ch := make(chan *lock.Hold, 1)
	go func() {
		defer close(ch)
		own := lock.WithMetadata(map[string]string{"waiter": strconv.Itoa(n)}) // with metadata of its own, each request creates an entry
		hold, err := locks.Mutex(name, own).Lock(ctx)
		if err != nil {
			c.Errorf("waiting for %s: %v", name, err)
		}
		ch <- hold
	}()
	c.Cleanup(func() {
		cancel()
		if hold := <-ch; hold != nil { // the test failed before it took the hold
			_ = hold.Unlock()
		}
	})
	c.eventually(fmt.Sprintf("%d contend for %s", n, name), func() bool { return len(ch) > 0 || len(c.contenders(locks, name)) >= n })
	return ch
}

func (c *cli) contenders(locks *lock.Client, name string) []admin.Contender {
	c.Helper()
	s, err := admin.New(locks).Inspect(c.ctx, name)
	iferr.Fatal(c, err)
	return s.Contenders
}

// watched is a list of processes whose end can be observed. The system may reuse an id after the
// process has ended; fd still refers to the same process.
type watched []watchedProcess

type watchedProcess struct{ pid, fd int }

func (c *cli) watch(pid int) watchedProcess {
	c.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		c.Fatalf("process %d: %v", pid, err)
	}
	c.Cleanup(func() { unix.Close(fd) })
	return watchedProcess{pid, fd}
}

// endWithin reports whether all processes end within d. A zombie counts as ended.
func (all watched) endWithin(d time.Duration) bool {
	deadline := time.Now().Add(d) // wall clock: the caller says for how long
	for _, p := range all {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(max(0, time.Until(deadline)).Milliseconds()))
			if n > 0 {
				break
			}
			if err != unix.EINTR {
				return false
			}
		}
	}
	return true
}

// mustEnd waits until all processes have ended, at most for patience.
func (c *cli) mustEnd(all watched) {
	c.Helper()
	if !all.endWithin(patience) {
		c.Errorf("a process of %v lives on", all)
	}
}

// mustEnter waits for the contender's hold, and unlocks it. The test fails if a process of dead
// still runs when the contender has the hold.
func (c *cli) mustEnter(ch <-chan *lock.Hold, dead watched) {
	c.Helper()
	hold := <-ch
	if !dead.endWithin(0) {
		c.Errorf("another client has the lock, and a process of %v lives", dead)
	}
	c.unlock(hold)
}

// mustNotHave fails the test if ch has received a hold.
func (c *cli) mustNotHave(ch <-chan *lock.Hold) {
	c.Helper()
	if len(ch) > 0 {
		c.Error("another client has the lock already")
	}
}

// processes returns the ids of the program's processes that have an argument with the text.
func (c *cli) processes(program, text string) (pids []int) {
	c.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	iferr.Fatal(c, err)
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		args := strings.Split(string(line), "\x00")
		if args[0] == program && slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, text) }) {
			pid, err := strconv.Atoi(strings.Split(file, "/")[2])
			iferr.Fatal(c, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

func (c *cli) guard() watchedProcess {
	c.Helper()
	pids := c.processes("holdfast-guard", c.name)
	if len(pids) != 1 {
		c.Fatalf("guards: %v, want one", pids)
	}
	return c.watch(pids[0])
}

// Commands that print the ids of their processes. stubborn ignores SIGTERM and has a child;
// obedient ends at SIGTERM.
const (
	stubborn = `trap "" TERM; sleep 1000 & echo $$ $!; wait`
	obedient = `trap "echo asked; exit 3" TERM; echo $$; while :; do sleep 0.05; done`
)

func testLs(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	locks := c.client(lock.WithOwner("shop"))
	begun := time.Now()
	hold := c.lock(locks, "orders/42", lock.WithMetadata(map[string]string{"job": "ship"}))
	other := c.lock(locks, "catalog")
	next := c.queued(locks, "orders/42", 2)
	foreign, err := c.raw.CreateProtectedEphemeralSequential(c.root+"/orders/42/lock-", nil, zk.WorldACL(zk.PermAll))
	iferr.Fatal(t, err)
	c.create(c.root+"/stranger", "hello", 0)

	type entry struct {
		Entry, Token, Owner, Host string
		Ours                      bool
		PID                       int
		Metadata                  map[string]string
		TTL                       int64     `json:"ttl_ms"`
		Acquired                  time.Time `json:"acquired_at"`
		Expires                   time.Time `json:"expires_at"`
		Read                      time.Time `json:"read_at"`
		Left                      int64     `json:"left_ms"`
	}
	type doc struct {
		Root  string
		Time  time.Time
		Locks []struct {
			Name, Kind       string
			Holders, Waiters []entry
		}
	}
	read := func(args ...string) doc {
		t.Helper()
		var d doc
		iferr.Fatal(t, json.Unmarshal([]byte(c.output(append([]string{"ls", "--json"}, args...)...)), &d))
		return d
	}
	all := read()
	if all.Root != c.root || len(all.Locks) != 2 || all.Locks[0].Name != "catalog" || all.Locks[1].Name != "orders/42" {
		t.Fatalf("ls: %+v", all)
	}
	l := all.Locks[1]
	if l.Kind != "mutex" || len(l.Holders) != 1 || len(l.Waiters) != 2 {
		t.Fatalf("orders/42: %+v", l)
	}
	h := l.Holders[0]
	host, _ := os.Hostname()
	if h.Entry != hold.EntryPath() || h.Token != hold.Token().String() || !h.Ours || h.Owner != "shop" || h.Host != host ||
		h.PID != os.Getpid() || h.Metadata["job"] != "ship" || h.TTL != long.Milliseconds() {
		t.Errorf("holder: %+v", h)
	}
	if h.Left <= 0 || h.Left > h.TTL || h.Expires.Sub(h.Read).Milliseconds() != h.Left || h.Read.After(all.Time) {
		t.Errorf("left %d ms of %d, from %v to %v", h.Left, h.TTL, all.Time, h.Expires)
	}
	if h.Acquired.Before(begun.Add(-time.Second)) || h.Acquired.After(h.Expires) { // the servers and the test use the same clock
		t.Errorf("acquired at %v, begun at %v", h.Acquired, begun)
	}
	if w := l.Waiters[0]; !w.Ours || w.Owner != "shop" || !w.Acquired.IsZero() || w.Left <= 0 {
		t.Errorf("first waiter: %+v", w)
	}
	if w := l.Waiters[1]; w.Ours || w.Entry != foreign || w.Owner != "" {
		t.Errorf("second waiter: %+v", w)
	}
	for _, which := range []string{"orders", "ord*/4?"} {
		if below := read(which); len(below.Locks) != 1 || below.Locks[0].Name != "orders/42" {
			t.Errorf("ls %s: %+v", which, below)
		}
	}
	var names []string
	for _, l := range read("--all").Locks {
		names = append(names, l.Name+":"+l.Kind)
	}
	if want := []string{"catalog:mutex", "orders:dir", "orders/42:mutex", "stranger:"}; !slices.Equal(names, want) {
		t.Errorf("ls --all: %q, want %q", names, want)
	}

	table := strings.Split(strings.TrimSpace(c.output("ls")), "\n")
	if len(table) != 5 {
		t.Fatalf("table: %q", table)
	}
	for i, want := range []string{
		"LOCK", "catalog", "orders/42",
		fmt.Sprintf("1. shop (%s, pid %d)", host, os.Getpid()),
		"2. not ours: …" + foreign[len(foreign)-23:],
	} {
		if !strings.Contains(table[i], want) {
			t.Errorf("line %d of the table is %q, want %q", i, table[i], want)
		}
	}

	c.unlock(other)
	c.unlock(hold)
	c.unlock(<-next)
	for _, node := range []string{foreign, c.root + "/orders/42", c.root + "/orders", c.root + "/stranger"} {
		if err := c.deleteEmpty(node); err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Error(err)
		}
	}
}

func testLsOfNothing(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	for path, args := range map[string][]string{
		"": {"ls"}, "/no/such": {"ls", "no/such"}, "/none": {"ls", "none", "--all"},
	} {
		want := "no locks in use at or below " + c.root + path + "\n" +
			"there is no node " + c.root + ": no lock has been taken below it yet, or --root is to name another\n"
		if got := c.output(args...); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	shows := c.start("show", "x")
	if got := shows.rest(); !strings.Contains(got, "there is no node "+c.root+": ") {
		t.Errorf("%q", got)
	}
	shows.mustExit(1)
	var doc struct {
		Locks  []any
		NoRoot bool `json:"no_root"`
	}
	if err := json.Unmarshal([]byte(c.output("ls", "--json")), &doc); err != nil || doc.Locks == nil || len(doc.Locks) > 0 || !doc.NoRoot {
		t.Errorf("%+v, %v", doc, err)
	}
	if _, _, err := c.raw.Get(c.root); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("the root was made: %v", err)
	}
	// If the configuration lists roots and no root was chosen, a log line lists the roots.
	config := fmt.Sprintf("zookeeper: {session_timeout: %v}\nroot: %s\nroots: [{name: team, root: /team}]\n", programSession, c.root)
	c.args = []string{"--config", writeConfig(t, config), "--servers", strings.Join(c.servers, ",")}
	for _, args := range [][]string{{"ls"}, {"doctor", "--watch-clock", "0"}} {
		c.fails(0, `"roots":["team at /team"],`, args...)
	}
	c.args = append(c.args, "--root", c.root)
	p := c.start("ls")
	p.rest()
	p.mustExit(0)
	if said := p.Stderr(); strings.Contains(said, "/team") {
		t.Error(said)
	}
}

func testRunEnvironment(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	p := c.start("run", c.name, "--", "sh", "-c", `echo "$HOLDFAST_LOCK $HOLDFAST_TOKEN"; read line; echo "read $line"`)
	said := strings.Fields(p.line())
	held := c.contenders(c.client(), c.name)
	if len(held) != 1 || len(said) != 2 || said[0] != c.name || said[1] != held[0].Token.String() ||
		held[0].Owner != "sh" || held[0].PID != p.Pid() || held[0].TTL != long {
		t.Errorf("the command was told %q, the lock has %+v", said, held)
	}
	iferr.Fatal(t, p.Tell("what we wrote"))
	if line := p.line(); line != "read what we wrote" {
		t.Errorf("the command says %q", line)
	}
	p.mustExit(0)
}

// testRunWaiting: a run that waits prints the name of the lock and its holder. A run that the
// holder's command has started also prints that it already runs under the lock.
func testRunWaiting(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	inner := strings.Join(slices.Concat([]string{"exec", c.prog, "run"}, c.args, []string{c.name, "--", "true"}), " ")
	p := c.start("run", c.name, "--", "sh", "-c", inner)
	c.eventually("it says that it waits", func() bool { return strings.Contains(p.Stderr(), "waiting for lock \""+c.name+"\", which sh (") })
	p.mustSay("runs under lock \"" + c.name + "\" already")
	p.signal(syscall.SIGTERM)
	p.mustExit(128 + int(syscall.SIGTERM))
}

func testRunStatus(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	file := func(name, text string, mode os.FileMode) (path string) {
		path = filepath.Join(c.dir, name)
		writeFile(t, path, text)
		iferr.Fatal(t, os.Chmod(path, mode))
		return path
	}
	script, text := file("script", "\x00\x01", 0o700), file("text", "", 0o600)
	dos, bare := file("dos", "#!/bin/sh\r\ntrue\r\n", 0o700), file("bare", "exit $1\n", 0o700)
	locks := c.client()
	hold := c.lock(locks, "taken")
	unreachable := localhost.Silent(t)
	hasty := writeConfig(t, "zookeeper: {session_timeout: 2s}")
	for _, test := range []struct {
		want int
		says string
		args []string
	}{
		{0, "", []string{"run", "x", "--", "true"}},
		{7, "", []string{"run", "x", "--ttl", "1m", "--", "sh", "-c", "exit 7"}},
		{75, "", []string{"run", "x", "--", "sh", "-c", "exit 75"}},
		{128 + 9, "", []string{"run", "x", "--", "sh", "-c", "kill -9 $$"}},
		{75, "held by another contender", []string{"run", "taken", "--wait", "0", "--", "true"}},
		{75, "unless renewed: not acquired within --wait; holdfast show taken tells more\n", []string{"run", "taken", "--wait", "10s", "--", "true"}},
		{75, "no session with ZooKeeper within 200ms, tried " + unreachable, []string{"run", "x", "--wait", "200ms", "--servers", unreachable, "--", "true"}},
		{75, "no session with ZooKeeper within 2s, tried " + unreachable, []string{"run", "x", "--config", hasty, "--servers", unreachable, "--", "true"}},
		{9, "held by another contender", []string{"run", "taken", "--wait", "0", "--held-status", "9", "--", "true"}},
		{9, "", []string{"run", "taken", "--wait", "0", "--held-status", "9", "--quiet", "--", "true"}},
		{75, "", []string{"run", "taken", "--wait", "0", "-q", "--", "true"}},
		{75, "no session with ZooKeeper", []string{"run", "x", "--wait", "200ms", "-q", "--held-status", "9", "--servers", unreachable, "--", "true"}},
		{2, "--held-status 256: must be from 0 to 255", []string{"run", "x", "--held-status", "256", "--", "true"}},
		{126, "line 1, \"#!/bin/sh\\r\", ends in a carriage return", []string{"run", "x", "--servers", unreachable, "--", dos}},
		{8, "", []string{"run", "x", "--", bare, "8"}},
		{126, "exec format error", []string{"run", "x", "--", script}},
		{126, "permission denied", []string{"run", "x", "--servers", unreachable, "--", text}},
		{127, "executable file not found", []string{"run", "x", "--servers", unreachable, "--", "no-such-program"}},
		{127, "no such file", []string{"run", "x", "--servers", unreachable, "--", "/no/such/program"}},
		{2, "want one lock name", []string{"run", "x", "y", "--", "true"}},
	} {
		p := c.start(test.args...)
		p.mustExit(test.want)
		p.mustSay(test.says)
		if said := p.Stderr(); test.says == "" && strings.Contains(said, "holdfast") {
			t.Errorf("%v: it says %q", test.args, said)
		}
	}
	c.unlock(hold)
	c.nothingLeft()
}

func testRunSignals(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	p := c.start("run", c.name, "--", "sh", "-c",
		`for s in HUP INT QUIT USR1 USR2; do trap "echo $s" $s; done; trap "echo TERM; exit 5" TERM; echo ready; while :; do sleep 0.05; done`)
	if line := p.line(); line != "ready" {
		t.Fatal(line)
	}
	for _, s := range []struct {
		signal syscall.Signal
		name   string
	}{
		{syscall.SIGHUP, "HUP"}, {syscall.SIGINT, "INT"}, {syscall.SIGQUIT, "QUIT"},
		{syscall.SIGUSR1, "USR1"}, {syscall.SIGUSR2, "USR2"}, {syscall.SIGTERM, "TERM"},
	} {
		p.signal(s.signal)
		if line := p.line(); line != s.name {
			t.Errorf("sent %s, the command got %s", s.name, line)
		}
	}
	p.mustExit(5)
}

func testRunInterrupted(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	locks := c.client()
	hold := c.lock(locks, c.name)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGALRM} {
		p := c.start("run", c.name, "--", "true")
		c.eventually("run waits", func() bool { return len(c.contenders(locks, c.name)) == 2 })
		p.signal(s)
		p.mustExit(128 + int(s))
		if left := c.contenders(locks, c.name); len(left) != 1 {
			t.Fatalf("%v: left %+v", s, left)
		}
		if said := p.Stderr(); strings.Contains(said, "goroutine") {
			t.Errorf("%v: %s", s, said)
		}
	}
	c.unlock(hold)
}

func testRunChildren(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	p := c.start("run", c.name, "--", "sh", "-c", `trap "" TERM; sleep 1000 & echo $!; read line; exit 4`)
	child := p.pids()
	iferr.Fatal(t, p.Tell("end"))
	locks := c.client()
	c.eventually("the lock is free", func() bool { return len(c.contenders(locks, c.name)) == 0 })
	if !child.endWithin(0) {
		t.Error("the lock is free, and a child of the command lives")
	}
	p.mustExit(4)
	if left := c.processes("holdfast-guard", c.name); len(left) > 0 {
		t.Errorf("guards are left: %v", left)
	}
}

// testRunStuckStderr: if standard error is a full pipe that no process reads, a signal or a lost
// lock still ends run, and run holds its lock until its end.
func testRunStuckStderr(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin, short)
	for status, end := range map[int]func(p *os.Process, entry string){
		128 + 15: func(p *os.Process, _ string) {
			time.Sleep(ttl) // wall clock: the holder must renew the lease meanwhile
			_ = p.Signal(syscall.SIGTERM)
		},
		76: func(_ *os.Process, entry string) {
			c.byHand(entry)
			iferr.Error(t, c.raw.Delete(entry, -1))
		},
	} {
		r, w, err := os.Pipe()
		iferr.Fatal(t, err)
		defer r.Close()
		defer w.Close()
		// wall clock: a full pipe makes no event
		iferr.Fatal(t, w.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
		for err == nil {
			_, err = w.Write(make([]byte, 1024))
		}
		name := fmt.Sprint(c.name, "-", status)
		cmd := exec.CommandContext(c.ctx, c.prog, slices.Concat([]string{"run"}, c.args, []string{name, "--", "sh", "-c", "echo ready; exec sleep 1000"})...)
		cmd.Stderr = w
		p := c.bench.start(cmd)
		p.line() // ready
		end(cmd.Process, c.contenders(c.client(), name)[0].Path)
		// wall clock: a limit of four TTLs, which is what the test is about
		timer := time.AfterFunc(4*ttl, func() {
			t.Errorf("%d: it waits for its standard error to be read", status)
			_ = cmd.Process.Kill()
		})
		<-p.Exited()
		timer.Stop()
		if got := p.ExitCode(); got != status {
			t.Errorf("exit status %d, want %d", got, status)
		}
	}
}

func testRunMaxHold(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin, fmt.Sprintf("{name: short, match: \"*\", ttl: %v, grace: %v, max_hold: %v}", ttl, grace, ttl+ttl/2))
	p := c.start("run", c.name, "--", "sh", "-c", obedient)
	pids := p.pids()
	next := c.queued(c.client(), c.name, 2)
	if line := p.line(); line != "asked" {
		t.Errorf("the command says %q, want asked", line)
	}
	p.mustExit(76)
	c.mustEnter(next, pids)
}

// testRunOutage: while the server is silent, the commands end before the lease does, although run
// gets no reply.
func testRunOutage(t *testing.T, bin string) {
	server := zkserver.ForTest(t, zkserver.Options{})
	c := newCLI(on(t, []string{server.Addr()}), bin, short)
	beats := filepath.Join(c.dir, "beats")
	one := c.start("run", "one", "--", "sh", "-c",
		`trap "" TERM; sleep 1000 & echo $$ $!; while :; do date +%s%N >> `+beats+`; sleep 0.02; done`)
	two := c.start("run", "two", "--", "sh", "-c", obedient)
	pidsOne, pidsTwo := one.pids(), two.pids()
	locks := c.client()
	nextOne, nextTwo := c.queued(locks, "one", 2), c.queued(locks, "two", 2)

	iferr.Fatal(t, server.Pause())
	paused := time.Now() // all acknowledged renewals were sent before
	if line := two.line(); line != "asked" {
		t.Errorf("the command says %q, want asked", line)
	}
	c.mustEnd(pidsTwo)
	c.mustEnd(pidsOne)
	one.mustSay("asked to end")
	data, err := os.ReadFile(beats)
	iferr.Fatal(t, err)
	lines := bytes.Fields(data)
	last, err := strconv.ParseInt(string(lines[len(lines)-1]), 10, 64)
	iferr.Fatal(t, err)
	if late := time.Unix(0, last).Sub(paused.Add(ttl)); late > 0 {
		t.Errorf("the command was at work %v after the end of the lease", late)
	}
	c.mustNotHave(nextOne)
	c.mustNotHave(nextTwo)

	iferr.Fatal(t, server.Resume())
	one.mustExit(76)
	two.mustExit(76)
	c.mustEnter(nextOne, pidsOne)
	c.mustEnter(nextTwo, pidsTwo)
}

func testRunKilled(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin, short)
	p := c.start("run", c.name, "--", "sh", "-c", stubborn)
	pids := p.pids()
	guard := c.guard()
	next := c.queued(c.client(), c.name, 2)
	p.signal(syscall.SIGKILL)
	c.mustEnd(pids)
	c.mustNotHave(next) // the command is killed at once, not only at the lease's end
	c.mustEnd(watched{guard})
	p.mustSay("holdfast run has died: killed the command's process group")
	c.mustEnter(next, pids)
}

// testRunStopped: if run is stopped for longer than its lease, the guard kills the command before
// another client holds the lock.
func testRunStopped(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin, short)
	p := c.start("run", c.name, "--", "sh", "-c", stubborn)
	pids := p.pids()
	next := c.queued(c.client(), c.name, 2)
	p.signal(syscall.SIGSTOP)
	c.mustEnter(next, pids)
	p.signal(syscall.SIGCONT)
	p.mustExit(76)
	p.mustSay("no renewal was told of: killed the command's process group")
}

func testRunGuardKilled(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	p := c.start("run", c.name, "--", "sh", "-c", stubborn)
	pids := p.pids()
	iferr.Fatal(t, syscall.Kill(c.guard().pid, syscall.SIGKILL))
	c.mustEnd(pids)
	p.mustExit(76)
	p.mustSay("the process that guards the command has died")
}

func testDemo(t *testing.T, bin string) { newCLI(onShared(t), bin).demo() }

// demo runs the demo to its end. The demo must report 10 kept promises, and leave no node and no
// worker.
func (c *cli) demo() {
	c.Helper()
	p := c.start("demo")
	base := c.demoBase(p.line())
	kept := 0
	for line := range strings.SplitSeq(p.rest(), "\n") {
		c.Log(line)
		if strings.HasSuffix(line, " ok") {
			kept++
		}
	}
	p.mustExit(0)
	if kept != 10 {
		c.Errorf("%d promises kept, want 10", kept)
	}
	c.mustBeGone(base)
}

func testDemoInterrupted(t *testing.T, bin string) {
	c := newCLI(onShared(t), bin)
	p := c.start("demo")
	base := c.demoBase(p.line())
	for !strings.Contains(p.line(), "Holdfast, with a TTL") {
	}
	if len(c.processes("holdfast-demo-worker", base)) == 0 {
		t.Error("there are no workers: this test looks in the wrong place")
	}
	c.byHand(base + "/locks/orders/b/entry") // the demo removes what the killed workers have left
	p.signal(syscall.SIGINT)
	p.mustExit(128 + int(syscall.SIGINT))
	c.mustBeGone(base)
}

// demoBase returns the demo's root node, from its first line of output.
func (c *cli) demoBase(line string) string {
	c.Helper()
	_, after, _ := strings.Cut(line, "below ")
	base, _, ok := strings.Cut(after, ",")
	if ok, _, err := c.raw.Exists(base); err != nil || !ok {
		c.Fatalf("the demo's node %q is not there: %v", base, err)
	}
	if !ok {
		c.Fatalf("the demo begins with %q", line)
	}
	return base
}

// mustBeGone fails the test if the demo's root node exists or a worker runs.
func (c *cli) mustBeGone(base string) {
	c.Helper()
	if ok, _, err := c.raw.Exists(base); err != nil || ok {
		c.Errorf("%s is left: %v", base, err)
	}
	if left := c.processes("holdfast-demo-worker", base); len(left) > 0 {
		c.Errorf("workers are left: %v", left)
	}
}
