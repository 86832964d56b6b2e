package group

import (
	"os"
	"syscall"
)

// Own has a process that is started with it have a group of its own.
func Own() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// Kill ends the process of that id. What it has started goes on: Windows knows no groups
// that can be ended.
func Kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // fails only if it is gone
	}
}
