//go:build unix

package supervise

import (
	"errors"
	"os"
	"syscall"
)

// passedOn are the signals that the command's group gets when we get them.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
}

// Fatal are further signals that end a process, beside SIGHUP, SIGINT and SIGTERM: a process
// that has something to clean up needs to hear of them.
var Fatal = []os.Signal{syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM}

// pass passes a signal on to the group. One that asks it to end reaches a command
// that is stopped only when it goes on.
func (s *supervisor) pass(sig syscall.Signal) {
	switch sig {
	case syscall.SIGPIPE:
	case syscall.SIGCONT:
		s.process.resume()
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		if err := s.process.signal(sig); errors.Is(err, syscall.EPERM) {
			s.tell("the command cannot be sent a signal (%v): it has become another user's", sig)
		}
		_ = s.process.signal(syscall.SIGCONT)
	default:
		_ = s.process.signal(sig)
	}
}
