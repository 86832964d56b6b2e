//go:build unix

package supervise

import (
	"errors"
	"os"
	"syscall"
)

// passedOn are the signals that are forwarded to the command's group.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
}

// Fatal are signals that end a process, besides SIGHUP, SIGINT and SIGTERM. A process that must
// clean up has to handle them.
var Fatal = []os.Signal{syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM}

// pass forwards a signal to the group, except SIGPIPE. At SIGCONT it resumes the group, see resume.
// After a signal that asks the command to end, pass also sends SIGCONT, because a stopped command
// receives the signal only then.
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
