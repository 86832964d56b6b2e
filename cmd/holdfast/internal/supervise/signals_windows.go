package supervise

import (
	"os"
	"syscall"
)

// passedOn are the signals that the command's group gets when we get them: Ctrl-C and
// Ctrl-Break, and that the console is closed.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

// Fatal are further signals that end a process: there are none.
var Fatal []os.Signal

// pass passes a signal on to the group.
func (s *supervisor) pass(sig syscall.Signal) {
	if sig != syscall.SIGPIPE {
		_ = s.process.signal(sig)
	}
}
