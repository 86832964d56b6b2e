package zkserver

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitPaused waits until all threads of a child that was sent SIGSTOP stand still.
func awaitPaused(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// sleepUntil sleeps in the kernel: Go's own timers may be a millisecond late in a
// process that is idle otherwise, which is as much as is to be slept here.
func sleepUntil(t time.Time) {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		span := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&span, nil) // interrupted: goes on
	}
}
