package zkserver

import (
	"syscall"

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
