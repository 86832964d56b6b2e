package supervise

import (
	"os"
	"syscall"
)

// passedOn are the signals that are forwarded to the command's group: Ctrl-C, Ctrl-Break, and the
// close of the console.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

// Fatal are further signals that end a process: none here.
var Fatal []os.Signal

// pass forwards a signal to the group. It drops SIGPIPE.
func (s *supervisor) pass(sig syscall.Signal) {
	if sig != syscall.SIGPIPE {
		_ = s.process.signal(sig)
	}
}
