//go:build linux

package integration_test

import (
	"bytes"
	"context"
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

	"github.com/holdfast-io/holdfast/integration/iferr"
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
		"Tools":           testTools,
		"Top":             testTop,
		"Break":           testBreak,
		"WithoutServer":   testWithoutServer,
		"Waiting":         testRunWaiting,
		"Tickets":         testRunTickets,
		"Signals":         testRunSignals,
		"Interrupted":     testRunInterrupted,
		"Children":        testRunChildren,
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
		"ReaperPage":      testReaperPage,
		"Reload":          testReaperReload,
		"Roots":           testReaperRoots,
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
