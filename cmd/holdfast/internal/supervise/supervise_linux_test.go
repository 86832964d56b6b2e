package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/pty"
)

const (
	patience = time.Minute
	// envRole makes the test binary run a command as holdfast run does. Its value is the TTL and the
	// mode of a [fakeHold].
	envRole = "SUPERVISE_TEST"
	// envBroken makes guards that never confirm that they are armed.
	envBroken = "SUPERVISE_TEST_BROKEN"
	// envThread makes a gate that becomes the command on another thread than its first one, and a
	// command that prints its parent-death signal.
	envThread = "SUPERVISE_TEST_THREAD"
	// envRoot makes a command that becomes root, if its file is set-user-ID root.
	envRoot = "SUPERVISE_TEST_ROOT"
)

func TestMain(m *testing.M) {
	if os.Args[0] == guardName && os.Getenv(envBroken) != "" {
		os.Stdout.Close()
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}
	if os.Getenv(envThread) != "" {
		os.Exit(exchange())
	}
	if os.Getenv(envRoot) != "" && os.Geteuid() == 0 && os.Getuid() != 0 {
		os.Exit(becomeRoot())
	}
	Helper()
	if role := os.Getenv(envRole); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// fakeHold is a hold that is always renewed ("renewed"), never renewed ("fading"), already over
// ("over"), or ended by another client ("gone").
type fakeHold struct {
	ttl   time.Duration
	mode  string
	begun time.Time
	ctx   context.Context
}

func (h *fakeHold) Name() string             { return "test" }
func (h *fakeHold) Context() context.Context { return h.ctx }
func (h *fakeHold) Err() error               { return errors.New("gone") }
func (h *fakeHold) Remaining() time.Duration {
	switch h.mode {
	case "renewed":
		return h.ttl
	case "over":
		return 0
	}
	return max(0, h.ttl-time.Since(h.begun))
}

// play calls Run for the command in the arguments, with the hold that role describes. It prints Run's
// messages and result, and returns the exit status.
func play(role string) int {
	ttl, mode, _ := strings.Cut(role, " ")
	ctx, end := context.WithCancel(context.Background())
	defer end()
	h := &fakeHold{mode: mode, begun: time.Now(), ctx: ctx}
	if mode == "gone" {
		end()
	}
	var err error
	if h.ttl, err = time.ParseDuration(ttl); err != nil {
		panic(err)
	}
	path, err := exec.LookPath(os.Args[1])
	if err != nil {
		panic(err)
	}
	result, err := Run(context.Background(), h, h.ttl, Command{Path: path, Args: os.Args[1:], Env: os.Environ()},
		func(format string, args ...any) { fmt.Printf("told: "+format+"\n", args...) }, func() {})
	if err != nil {
		fmt.Println("error:", err)
		return 99
	}
	if result.Ended != nil {
		fmt.Println("ended:", result.Ended)
	}
	if t := findTerminal(unix.Getpgrp()); t != nil {
		fmt.Println("foreground:", t.isOurs())
	}
	return result.Status
}

// actor is a process that runs play.
type actor struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

// act starts an actor that runs a shell script in a role of envRole. prepare may change the actor's
// command.
func act(t *testing.T, role, script string, prepare ...func(*exec.Cmd)) *actor {
	t.Helper()
	a := &actor{t: t, cmd: exec.Command(os.Args[0], "sh", "-c", script), lines: make(chan string, 1000)}
	a.cmd.Env = append(os.Environ(), envRole+"="+role)
	a.cmd.Stderr = os.Stderr
	r, w, err := os.Pipe()
	iferr.Fatal(t, err)
	a.cmd.Stdout = w
	for _, p := range prepare {
		p(a.cmd)
	}
	iferr.Fatal(t, a.cmd.Start())
	w.Close()
	a.read(r)
	return a
}

// read sends the lines of the actor's output to a.lines. At the end of the test it kills the actor.
func (a *actor) read(r *os.File) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(a.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			a.lines <- strings.TrimSuffix(s.Text(), "\r")
		}
	}()
	a.t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
		r.Close()
		<-read
	})
}

func (a *actor) line() string {
	a.t.Helper()
	select {
	case line, ok := <-a.lines:
		if !ok {
			a.t.Fatal("no more output")
		}
		return line
	case <-time.After(patience):
		a.t.Fatal("no output")
		return ""
	}
}

func (a *actor) mustSay(want string) {
	a.t.Helper()
	if line := a.line(); !strings.Contains(line, want) {
		a.t.Fatalf("output is %q, want %q in it", line, want)
	}
}

// until reads lines up to the first one with the text, and returns the lines before it.
func (a *actor) until(text string) (before []string) {
	a.t.Helper()
	for {
		line := a.line()
		if strings.Contains(line, text) {
			return before
		}
		before = append(before, line)
	}
}

func (a *actor) mustExit(want int) {
	a.t.Helper()
	ended := make(chan struct{})
	timer := time.AfterFunc(patience, func() { _ = a.cmd.Process.Kill() })
	defer timer.Stop()
	go func() {
		defer close(ended)
		_ = a.cmd.Wait()
	}()
	<-ended
	if got := a.cmd.ProcessState.ExitCode(); got != want {
		a.t.Errorf("exit status %d, want %d: %v", got, want, a.cmd.ProcessState)
	}
}

// children returns the actor's child processes.
func (a *actor) children() []string {
	a.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", a.cmd.Process.Pid))
	iferr.Fatal(a.t, err)
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			a.t.Fatal(err)
		}
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// guard returns the id of the actor's guard; command is the id of its command.
func (a *actor) guard(command string) int {
	a.t.Helper()
	all := slices.DeleteFunc(a.children(), func(child string) bool { return child == command })
	if len(all) != 1 {
		a.t.Fatalf("children: %q and %s, want a guard and a command", all, command)
	}
	guard, err := strconv.Atoi(all[0])
	iferr.Fatal(a.t, err)
	return guard
}

// stop stops the guard. If the test fails, its clean-up continues the guard.
func (a *actor) stop(guard int) {
	a.t.Helper()
	iferr.Fatal(a.t, unix.Kill(guard, unix.SIGSTOP))
	a.t.Cleanup(func() {
		if a.t.Failed() {
			_ = unix.Kill(guard, unix.SIGCONT)
		}
	})
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "exit 255": 255,
		"kill -TERM $$": 128 + 15, "kill -KILL $$": 128 + 9,
		// The command leads its own group.
		"read -r stat < /proc/$$/stat; set -- $stat; test $5 = $$": 0,
	} {
		act(t, "1h renewed", script).mustExit(want)
	}
}

// fading is the role of a lease without renewals. The lease is so long that on a busy machine, too, a
// command starts, and acts between SIGTERM and SIGKILL.
const fading = "15s fading"

// TestLeaseThatEnds: the command gets SIGTERM, also if it is stopped, and SIGKILL, when its lease ends.
// It gets SIGKILL when the hold is lost, or was over before the start.
func TestLeaseThatEnds(t *testing.T) {
	t.Parallel()
	const ends = `lock "test": its lease ends in`
	for name, test := range map[string]struct {
		role, script string
		says         []string
		status       int
	}{
		"in order":              {fading, `trap "echo SIGTERM; exit 3" TERM; echo ready; while :; do sleep 0.05; done`, []string{"told: " + ends, "SIGTERM", "ended: " + ends}, 3},
		"stopped":               {fading, `trap "echo SIGTERM; exit 3" TERM; kill -STOP $$; sleep 1000`, []string{"told: " + ends, "SIGTERM", "ended: " + ends}, 3},
		"stubborn":              {fading, `trap "" TERM; sleep 1000 & sleep 1000`, []string{"asked to end", "the command is ended", "ended: " + ends}, 128 + 9},
		"lost":                  {"1h gone", `trap "" TERM; sleep 1000`, []string{"gone: the command is ended", "ended: gone"}, 128 + 9},
		"over before the start": {"30s over", "echo started", []string{"the command is ended", "ended: " + ends}, 128 + 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := act(t, test.role, test.script)
			for _, says := range test.says {
				for _, before := range a.until(says) {
					if before != "ready" && !strings.HasPrefix(before, "told: the command stands still") {
						t.Errorf("output before %q: %q", says, before)
					}
				}
			}
			a.mustExit(test.status)
		})
	}
}

func TestCommandDoesNotStartUnguarded(t *testing.T) {
	t.Parallel()
	a := act(t, "1h renewed", "echo started", func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, envBroken+"=1") })
	a.mustExit(1)
	for line := range a.lines {
		t.Errorf("output: %q", line)
	}
}

// TestLeaseThatEndsWhileTheGuardIsStopped: if the guard is stopped, Run itself kills the command.
func TestLeaseThatEndsWhileTheGuardIsStopped(t *testing.T) {
	t.Parallel()
	a := act(t, fading, `trap "" TERM; echo $$; sleep 1000`)
	a.stop(a.guard(a.line()))
	a.mustSay("the command is asked to end")
	a.mustSay("the command is ended")
	a.mustSay("ended: lock")
	a.mustExit(128 + 9)
}

func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	a := act(t, "1h renewed", `for i in 1 2 3 4 5 6 7 8; do (sleep 0.01 &) ; done; (sleep 1000 &); echo done; read line`, func(cmd *exec.Cmd) {
		r, w, err := os.Pipe()
		iferr.Fatal(t, err)
		cmd.Stdin = r
		t.Cleanup(func() { r.Close(); w.Close() })
	})
	a.mustSay("done")
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if all := a.children(); len(all) == 3 { // the guard, the command, and the orphan that still runs
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("children: %q", all)
		}
	}
}

// TestGuardThatWasStopped: a guard that was stopped for longer than a lease reads the latest leash
// before it decides, and does not kill.
func TestGuardThatWasStopped(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	a := act(t, lease.String()+" renewed", `echo $$; while :; do sleep 0.05; done`)
	guard := a.guard(a.line())
	a.stop(guard)
	<-time.After(lease + time.Second) // wall clock: longer than the lease in the guard's last message
	iferr.Fatal(t, unix.Kill(guard, unix.SIGCONT))
	<-time.After(time.Second) // wall clock: renewals go on
	iferr.Fatal(t, a.cmd.Process.Signal(syscall.SIGTERM))
	a.mustExit(128 + 15) // by the test's SIGTERM, and not by the guard's SIGKILL
}

func TestFilesOfTheCallerAreInherited(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	iferr.Fatal(t, os.WriteFile(file, []byte("inherited\n"), 0o600))
	f, err := os.Open(file)
	iferr.Fatal(t, err)
	defer f.Close()
	a := act(t, "1h renewed", "cat <&3", func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{f} })
	a.mustSay("inherited")
	a.mustExit(0)
}

func TestIgnoredHangupStaysIgnored(t *testing.T) {
	t.Parallel()
	a := act(t, "1h renewed", "kill -HUP $$; echo alive", func(cmd *exec.Cmd) {
		cmd.Path = "/bin/sh"
		cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, cmd.Args...)
	})
	a.mustSay("alive")
	a.mustExit(0)
}

// onTerminal starts a program as the leader of a session with a terminal. typed sends input to the
// terminal.
func onTerminal(t *testing.T, cmd *exec.Cmd) (a *actor, typed func(string)) {
	t.Helper()
	master, slave := pty.Open(t)
	defer slave.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	iferr.Fatal(t, cmd.Start())
	a = &actor{t: t, cmd: cmd, lines: make(chan string, 1000)}
	a.read(master)
	return a, func(text string) {
		iferr.Fatal(t, iferr.Of(io.WriteString(master, text)))
	}
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

func TestTerminal(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "sh", "-c", `trap "echo INT" INT; trap "echo CONT" CONT; echo ready
		while :; do read line && echo "got $line" && [ "$line" = quit ] && exit 5; done`)
	cmd.Env = append(os.Environ(), envRole+"=1h renewed")
	a, typed := onTerminal(t, cmd)
	a.until("ready")
	typed("hello\n")
	a.until("got hello")
	typed(ctrlC)
	a.until("INT")
	typed(ctrlZ) // no shell could continue Run, so it continues the command at once
	if before := a.until("CONT"); slices.Contains(before, "INT") {
		t.Errorf("one Ctrl-C came twice: %q", before)
	}
	typed("quit\n")
	a.until("got quit")
	a.mustSay("foreground: true")
	a.mustExit(5)
}

func TestJobControl(t *testing.T) {
	t.Parallel()
	a, typed := inBash(t)
	// The terminal echoes the input; the quotes distinguish it from the output.
	typed(asRun("1h renewed") + ` sh -c 'echo rea""dy; read line; echo "got $line"; exit 5'` + "\n")
	a.until("ready")
	typed(ctrlZ)
	a.until("Stopped")
	typed("fg\n")
	typed("hello\n")
	a.until("got hello")
	typed("echo status $?\n")
	a.until("status 5")
	typed("exit\n")
	a.mustExit(0)
}

// TestPrompts: a command that prompts gets the terminal, although standard input or output is
// redirected. Afterwards the shell has the terminal again.
func TestPrompts(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"pipe":         `%s sh -c 'echo as""king >/dev/tty; read line; echo "got $line"; exit 5' | cat; echo "status ${PIPESTATUS[0]}"`,
		"substitution": `x=$(%s sh -c 'echo as""king >/dev/tty; read line </dev/tty; echo "got $line"; exit 5'); echo "status $? $x"`,
		"no input":     `%s sh -c 'echo as""king >/dev/tty; read line </dev/tty; echo "got $line"; exit 5' </dev/null; echo "status $?"`,
		"no echo":      `%s sh -c 'stty -echo </dev/tty; echo as""king >/dev/tty; read line </dev/tty; stty echo </dev/tty; echo "got $line"; exit 5' </dev/null | cat; echo "status ${PIPESTATUS[0]}"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, typed := inBash(t)
			typed(fmt.Sprintf(line, asRun("1h renewed")) + "; echo en\"\"ded\n")
			a.until("asking")
			typed("hello\n")
			a.until("got hello")
			for _, line := range append(a.until("ended"), "") {
				if strings.Contains(line, "status") && !strings.Contains(line, "status 5") {
					t.Errorf("%q", line)
				}
			}
			typed("read line; echo again $line\n")
			typed("shell\n")
			a.until("again shell")
			typed("exit\n")
			a.mustExit(0)
		})
	}
}

// TestPromptInTheBackground: if a command in the background asks for the terminal, Run prints why the
// command has stopped, and stops too. In the foreground both continue.
func TestPromptInTheBackground(t *testing.T) {
	t.Parallel()
	a, typed := inBash(t)
	typed(asRun("1h renewed") + ` sh -c 'echo as""king >/dev/tty; read line </dev/tty; echo "got $line"; exit 5' &` + "\n")
	a.until("the command stands still: it needs the terminal")
	for known := false; !known; { // until the shell lists the job as stopped, which it does when all threads have stopped
		typed("jobs\n")
		line := a.line()
		for !strings.HasPrefix(line, "[1]+") {
			line = a.line()
		}
		known = strings.Contains(line, "Stopped")
	}
	typed("fg\n")
	typed("hello\n")
	a.until("got hello")
	typed("echo status $?\n")
	a.until("status 5")
	typed("exit\n")
	a.mustExit(0)
}

// TestStoppedWithoutTerminal: without a terminal, Run prints that the command was stopped. SIGCONT to
// Run continues the command.
func TestStoppedWithoutTerminal(t *testing.T) {
	t.Parallel()
	a := act(t, "1h renewed", `kill -STOP $$; echo goes on; exit 3`, func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} })
	a.mustSay("told: the command stands still: it was stopped by a signal")
	iferr.Fatal(t, a.cmd.Process.Signal(syscall.SIGCONT))
	a.mustSay("goes on")
	a.mustExit(3)
}

// inBash starts an interactive shell on a terminal.
func inBash(t *testing.T) (a *actor, typed func(string)) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	cmd := exec.Command(bash, "--norc", "--noprofile", "-i")
	cmd.Env = append(os.Environ(), "TERM=dumb", "PS1=")
	return onTerminal(t, cmd)
}

// asRun returns a shell command that runs the test binary in a role of envRole.
func asRun(role string) string { return fmt.Sprintf("%s='%s' '%s'", envRole, role, os.Args[0]) }

// TestScriptWithoutInterpreter: sh executes a script whose first line names no interpreter.
func TestScriptWithoutInterpreter(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	iferr.Fatal(t, os.WriteFile(script, []byte("echo \"$1 $2\"\nexit 6\n"), 0o700))
	a := act(t, "1h renewed", "", func(cmd *exec.Cmd) { cmd.Args = []string{os.Args[0], script, "one", "two three"} })
	a.mustSay("one two three")
	a.mustExit(6)
}

// TestCommandOfRoot: if the command has become root, Run by another user prints that it cannot end the
// command.
func TestCommandOfRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a file that becomes root")
	}
	dir, err := os.MkdirTemp("", "holdfast-root-")
	iferr.Fatal(t, err)
	defer os.RemoveAll(dir)
	program, err := os.ReadFile(os.Args[0])
	plain, setuid := filepath.Join(dir, "plain"), filepath.Join(dir, "setuid")
	for file, mode := range map[string]os.FileMode{plain: 0o755, setuid: 0o755 | os.ModeSetuid} {
		err = errors.Join(err, os.WriteFile(file, program, 0o700), os.Chmod(file, mode))
	}
	if err = errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	in, end, err := os.Pipe()
	iferr.Fatal(t, err)
	defer end.Close()
	a := act(t, "4s fading", "", func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args, cmd.Dir, cmd.Stdin = plain, []string{plain, setuid}, "/", in
		cmd.Env = append(cmd.Env, envRoot+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
	in.Close()
	if line := a.line(); line != "root" {
		t.Skipf("no program can become root here: %s", line)
	}
	a.until("the command cannot be sent a signal (terminated): it has become another user's")
	a.until("the command cannot be ended: it has become another user's; it goes on without the lock")
	end.Close()
	a.mustExit(0)
}

// becomeRoot is a command that becomes root, and ends at the end of its input.
func becomeRoot() int {
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("root")
	io.Copy(io.Discard, os.Stdin)
	return 0
}
