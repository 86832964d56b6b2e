package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// process is never started: [Check] refuses each command on Windows.
type process struct{ events chan event }

func start(string, Command) (*process, error) { return nil, errors.ErrUnsupported }

func (*process) allow(time.Duration)                                  {}
func (*process) signal(syscall.Signal) error                          { return nil }
func (*process) suspend(syscall.Signal, func(string, ...any), func()) {}
func (*process) others() int                                          { return 0 }
func (*process) finish() (status syscall.WaitStatus)                  { return status }

func now() time.Duration { return 0 }

// Helper does nothing: only Linux has a guard.
func Helper() {}

var passedOn []os.Signal

// Fatal are further signals that end a process: none here.
var Fatal []os.Signal

func (*supervisor) pass(syscall.Signal) {}
