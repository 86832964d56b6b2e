//go:build unix

package supervise

import (
	"os"
	"syscall"
)

// passedOn are the signals that the command's group gets when we get them.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
}

// pass passes a signal on to the group. One that asks it to end reaches a command
// that is stopped only when it goes on.
func (s *supervisor) pass(sig syscall.Signal) {
	switch sig {
	case syscall.SIGPIPE:
	case syscall.SIGCONT:
		s.process.resume()
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		s.process.signal(sig)
		s.process.signal(syscall.SIGCONT)
	default:
		s.process.signal(sig)
	}
}
