package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of a session. Only the terminal's foreground process group may
// read from it, and only that group receives signals from its keys. A nil terminal means none.
type terminal struct {
	fd   int
	ours int // the process group of holdfast run
}

// findTerminal returns the terminal of this process's session; nil if there is none. group is the
// process group of holdfast run. Standard input may be another file: a program that asks for a
// password opens the terminal by its name.
func findTerminal(group int) *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd, group}
}

func (t *terminal) close() {
	if t != nil {
		_ = unix.Close(t.fd)
	}
}

// isForCommand reports whether the command gets the terminal at once. Otherwise the command gets it on
// request, because a process in the group of holdfast run may need it, such as a pager that reads the
// command's output.
func (t *terminal) isForCommand() bool {
	if _, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP); err != nil {
		return false // standard input is no terminal, or that of another session
	}
	out, err := os.Stdout.Stat()
	return err == nil && out.Mode()&os.ModeNamedPipe == 0 && t.isOurs()
}

// foreground returns the id of the foreground group.
func (t *terminal) foreground() (int, error) { return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP) }

// isOurs reports whether the group of holdfast run is in the foreground.
func (t *terminal) isOurs() bool { return t != nil && t.isOf(t.ours) }

// isOf reports whether group is in the foreground.
func (t *terminal) isOf(group int) bool {
	if t == nil {
		return false
	}
	foreground, err := t.foreground()
	return err == nil && foreground == group
}

// give puts group into the foreground.
func (t *terminal) give(group int) { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) }

// take puts the group of holdfast run into the foreground, if group is there.
func (t *terminal) take(group int) {
	if !t.isOf(group) {
		return
	}
	// The kernel stops a background process that changes the foreground group, unless it ignores
	// this signal.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	t.give(t.ours)
}
