package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// self is this process's program, even if its file has been replaced.
const self = "/proc/self/exe"

// Names of the helpers. They are the first arguments, which ps shows.
const (
	guardName = "holdfast-guard"
	gateName  = "holdfast-gate"
)

// Helper runs a helper if [Run] started this process as one; then it does not return. A program
// that uses Run calls it first in main.
func Helper() {
	switch args := os.Args; {
	case args[0] == guardName && len(args) == 2:
		os.Exit(guardMain(args[1]))
	case args[0] == gateName && len(args) > 3:
		os.Exit(pass(args[1], args[2], args[3:]))
	}
}

// now returns the time on the clock that the guard also uses.
func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has had this clock since 2.6.39
	}
	return time.Duration(ts.Nano())
}

// process is the command, its group and its guard.
type process struct {
	pid      int       // process id of the command, and the id of its group
	terminal *terminal // nil if there is none
	guard    *guard
	events   chan event
}

// start starts the guard, and then the command.
func start(lock string, cmd Command) (*process, error) {
	// Orphans of the group become children of this process, which can wait for them then.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	inner, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer inner.Close()
	g, err := startGuard(lock, gate)
	if err != nil {
		return nil, err
	}
	p := &process{terminal: findTerminal(unix.Getpgrp()), guard: g, events: make(chan event)}
	if err := p.start(cmd, inner); err != nil {
		g.dismiss()
		p.terminal.close()
		return nil, fmt.Errorf("start the command: %w", err)
	}
	go p.watch()
	return p, nil
}

// start starts the command, which waits behind the gate: see [pass].
func (p *process) start(cmd Command, gate *os.File) error {
	// The child inherits the gate under its present number. ProcAttr.Files would make the gate file
	// 3, but the command may inherit a file of that number from the caller of this process.
	fd := gate.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
		return err
	}
	args := append([]string{gateName, strconv.Itoa(int(fd)), cmd.Path}, cmd.Args...)
	child, err := os.StartProcess(self, args, &os.ProcAttr{
		Env:   cmd.Env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{
			Setpgid: true, Foreground: p.terminal.isForCommand(), Ctty: int(os.Stdin.Fd()),
			Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return err
	}
	p.pid = child.Pid
	return child.Release() // finish waits for it by its pid
}

// pass is the main function of the process behind the gate. It waits for a byte from the gate, and
// becomes the command. If the gate closes first, or on an error, pass returns the exit status.
func pass(gate, path string, args []string) int {
	fd, err := strconv.Atoi(gate)
	if err != nil {
		fmt.Fprintln(os.Stderr, "holdfast run: gate:", err)
		return 1
	}
	f := os.NewFile(uintptr(fd), "gate")
	n, _ := f.Read(make([]byte, 1))
	f.Close()
	if n == 0 {
		return 1
	}
	// The kernel stores for each thread whether it dies with its parent. The thread that calls
	// exec becomes the command. That may be another thread than the first one.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "holdfast run: die with it:", err)
		return 1
	}
	if parent, err := unix.Getpgid(os.Getppid()); err == nil {
		if t := findTerminal(parent); t.isOurs() {
			// A shell's $( ) ignores SIGTTIN and SIGTTOU, so a command that may not read the
			// terminal would get an error. exec resets caught signals to their defaults. So the
			// command is stopped instead, and gets the terminal then.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGTTIN, syscall.SIGTTOU)
		}
	}
	err = syscall.Exec(path, args, os.Environ())
	if script := (Command{Path: path, Args: args}); errors.Is(err, syscall.ENOEXEC) && script.isScript() {
		script = script.underShell()
		path, err = script.Path, syscall.Exec(script.Path, script.Args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "holdfast run: %s: %v\n", path, err)
	return CannotRun(err)
}

// allow sends the guard the time until which the command may live.
func (p *process) allow(until time.Duration) { p.guard.tell(leash{p.pid, until}) }

// signal sends a signal to the group. No other group can have the id before the command is reaped.
// It fails if the group has no process left, or none that this process may signal.
func (p *process) signal(s syscall.Signal) error { return unix.Kill(-p.pid, s) }

// suspend handles a command that a signal has stopped. Without a terminal it only tells the user. If
// the command asks for the terminal, and this process's group is in the foreground, the command gets
// the terminal.
//
// Otherwise this process stops too, as the command did, so that the shell notices. Meanwhile nothing
// renews the lease. If no shell could continue this process, the kernel does not stop it. Then a
// command that asked for the terminal stays stopped, and any other command is continued at once.
func (p *process) suspend(by syscall.Signal, tell func(format string, args ...any), flush func()) {
	asks := (by == syscall.SIGTTIN || by == syscall.SIGTTOU) && !p.terminal.isOf(p.pid)
	switch {
	case p.terminal == nil:
		tell("the command stands still: it was stopped by a signal (%v); SIGCONT has it go on", by)
	case asks && p.terminal.isOurs():
		p.resume()
	case asks:
		tell("the command stands still: it needs the terminal (%v), and holdfast run is in the background; fg has it go on, and SIGTERM ends it", by)
		flush()
		if p.terminal.isOurs() { // the job may have come to the foreground meanwhile
			p.resume()
			return
		}
		if err := unix.Kill(0, by); err != nil { // stop the whole job, as the kernel would
			tell("holdfast run could not stop itself: %v", err)
		}
	default:
		p.terminal.take(p.pid)
		if err := unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP); err != nil {
			tell("holdfast run could not stop itself: %v", err)
		}
		p.resume()
	}
}

// resume continues the command. If this process's group is in the foreground, the command's group
// takes its place.
func (p *process) resume() {
	if p.terminal.isOurs() {
		p.terminal.give(p.pid)
	}
	_ = p.signal(syscall.SIGCONT)
}

// others returns the number of running processes in the group besides the command and the guard.
func (p *process) others() (n int) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid pgrp: the name may have anything in it
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if len(fields) > 2 && fields[2] == strconv.Itoa(p.pid) && fields[0] != "Z" && fields[0] != "X" && pid != p.pid && pid != p.guard.pid {
			n++
		}
	}
	return n
}

// finish kills the rest of the group and the guard, and reaps them all. It takes the terminal back, and
// returns the command's status. It reaps the command after the guard: the guard could otherwise kill
// a new group with the same id.
func (p *process) finish() syscall.WaitStatus {
	_ = p.signal(syscall.SIGKILL)
	p.terminal.take(p.pid)
	p.terminal.close()
	p.guard.dismiss()
	var status syscall.WaitStatus
	for {
		var s unix.WaitStatus
		switch pid, err := unix.Wait4(-p.pid, &s, 0, nil); {
		case err == unix.EINTR:
		case err != nil:
			return status // ECHILD: all are reaped
		case pid == p.pid:
			status = syscall.WaitStatus(s)
		}
	}
}

// watch sends the changes of the command and of the guard to p.events, until the command has ended. It
// reaps orphans of the group, which become children of this process.
func (p *process) watch() {
	for {
		pid, stop, err := nextChange() // stop is 0 for an ended child
		switch {
		case err != nil:
			panic(fmt.Sprintf("wait for the command: %v", err)) // impossible: the command is not reaped yet
		case stop != 0 && pid == p.pid:
			p.events <- event{stopped, stop}
		case stop != 0:
		case pid == p.pid:
			p.events <- event{what: ended}
			return
		case pid == p.guard.pid:
			p.guard.reap()
			p.events <- event{what: unguarded}
		default:
			reap(pid)
		}
	}
}

// nextChange waits until a child has ended or was stopped. It returns the child's pid, and the stopping
// signal; 0 if the child has ended. It does not reap the child.
func nextChange() (pid int, stop syscall.Signal, err error) {
	var info unix.Siginfo
	for {
		err = unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, 0, err
	}
	// The fields of siginfo_t for SIGCHLD. Package unix has only the fields that all signals have.
	child := (*struct {
		signo, errno, code int32
		fields             struct {
			_        [0]uintptr // the union also has pointers
			pid, uid int32
			status   int32
		}
	})(unsafe.Pointer(&info))
	const stoppedCode = 5 // CLD_STOPPED; lower codes mean an end
	pid = int(child.fields.pid)
	if child.code < stoppedCode {
		return pid, 0, nil
	}
	// Consume the report, so that it is not reported again.
	err = unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOHANG, nil)
	if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECHILD) {
		err = nil // nothing is left to consume
	}
	return pid, syscall.Signal(child.fields.status), err
}

// reap reaps a child, which must have ended or end soon.
func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}
