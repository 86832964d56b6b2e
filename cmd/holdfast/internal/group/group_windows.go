package group

import (
	"os"
	"syscall"
)

// Own returns attributes that start a process in its own process group.
func Own() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// Kill kills the process with the id pid. Its children go on: Windows has no process groups that can
// be killed.
func Kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // fails only if it has ended
	}
}
