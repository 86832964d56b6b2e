package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the one that our standard input is. The command is to read from it,
// and that only the terminal's foreground process group may do, which then gets
// what is typed as signals, too. A nil terminal is none.
type terminal struct {
	fd   int
	ours int // our own process group
}

// findTerminal returns the terminal to hand over. There is none if standard output
// is a pipe: then a process in our own group, such as a pager, reads what the
// command writes, and probably needs the terminal itself.
func findTerminal() *terminal {
	t := &terminal{fd: int(os.Stdin.Fd()), ours: unix.Getpgrp()}
	if _, err := t.foreground(); err != nil {
		return nil
	}
	if out, err := os.Stdout.Stat(); err != nil || out.Mode()&os.ModeNamedPipe != 0 {
		return nil
	}
	return t
}

// foreground returns the group that may read. It fails if the terminal is not the
// one that controls our session.
func (t *terminal) foreground() (int, error) { return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP) }

// isOurs reports whether our group is in the foreground.
func (t *terminal) isOurs() bool {
	if t == nil {
		return false
	}
	group, err := t.foreground()
	return err == nil && group == t.ours
}

// give puts the command's group into the foreground.
func (t *terminal) give(group int) { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) }

// take puts our own group back there, if the command's group is.
func (t *terminal) take(group int) {
	if t == nil {
		return
	}
	if now, err := t.foreground(); err != nil || now != group {
		return
	}
	// A process that asks from the background is stopped, unless it ignores that signal.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	t.give(t.ours)
}
